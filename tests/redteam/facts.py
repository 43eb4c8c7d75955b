"""Facts about people, places, hosts and contacts, which speak of passwords, keys and doors and hold no secret.

`facts(seed, count)` draws some; `LEARNT` are the forms that benchmarks/fit_secrets.py learns from, `OTHERS` the rest.
"""

import random
import re
from collections.abc import Iterator, Sequence

_SLOTS = {
    "person": """Aylin Demirkan|Wei Zhang|Chiara Bellini|Tomasz Wójcik|Ngozi Okafor|Priya Raghunathan|Lars-Erik Holm|
        Siobhán O'Connor|Jean-Baptiste Lefèvre|Yuki Tanaka|Mohammed Al-Rashid|Olena Shevchenko|João Pereira|
        Ana María Núñez|Kwame Mensah|Ingrid Bjørnstad|Dimitris Papadopoulos|Nguyễn Thị Hoa|Søren Kjær|
        Zeynep Aktaş|Ravi Kumar|Emma Clarke|Hans Müller|Fatima Zahra Idrissi|Li Na|Park Ji-woo|
        Thandiwe Nkosi|Marek Novák|Isabella Rossi|Carlos Ibáñez|Mehmet Yılmaz|Anneke van der Berg|
        Piotr Kowalski|Leilani Kahale|Dr. Baumann|Mrs Whitfield|Elif|Bartek|Noor|Giulia Ferri|Oksana|Rajesh|
        Sven Lindqvist|Amara Diallo|Hiroshi Sato|Björk Jónsdóttir|Matteo De Luca|Irina Volkova""",
    "first": """Aylin|Wei|Chiara|Tomasz|Ngozi|Priya|Lars|Siobhán|Yuki|Omar|Olena|João|Kwame|Zeynep|Ravi|Emma|Marek|
        Elif|Noor|Jens""",
    "place": """Lyon-3|Hamburg|Porto|Łódź|Kraków-2|Rotterdam|Eindhoven|Malmö|São Paulo|Leipzig|Graz|Bergamo|Nairobi|
        Pune|Osaka|Lagos|Winnipeg|Tromsø|Zürich West|Building C|Hall 4|Dock 7|Warehouse B|the north wing|
        Bay 12|Floor 3|İzmir|Katowice""",
    "region": """eu-north-1|eu-central-1|us-east-2|ap-southeast-1|europe-west4|westeurope|northeurope|fra1|ams3|nyc3|
        hel1|eu-west-1b|sa-east-1|australia-southeast1|us-gov-west-1|nbg1|fsn1|gra11|par1|cn-hangzhou|
        ca-central-1""",
    "host": """db-prod-03|srv-lyon-2|web01|gw-fra-1|nas-attic|build-07.corp.example|vpn2.example.net|
        mail.example.org|ip-10-0-4-17|kestrel|orion|gitlab-runner-4|10.20.4.12|192.168.178.1|edge-ams-12|
        k8s-node-11|pluto.local|DC01|SRV-FILE02|esx-host-9|raspi4|ldap1|jumphost|bastion-eu|fw-oslo-1|
        printer-3rd-floor|fritz.box|PROD-SQL-01""",
    "vendor": """AWS|Hetzner|OVH|Azure|Cloudflare|Scaleway|DigitalOcean|Okta|Auth0|Bitwarden|1Password|KeePassXC|
        LastPass|HashiCorp Vault|Keycloak|Securitas|Verisure|Siemens|Dormakaba|SALTO|Unifi|Cisco|Fortinet|
        MikroTik|Aruba|Yubico|Vodafone|Telia|Proximus|Swisscom|Proton|Twilio|Stripe|PagerDuty|Atlassian|
        ASSA ABLOY|Nuki|Tailscale""",
    "service": """Jenkins|GitLab|Grafana|Jira|SAP|the VPN|the Wi-Fi|the guest network|Postgres|the NAS|payroll|
        the alarm|the door system|Salesforce|Moodle|Nextcloud|the badge readers|Kubernetes|SSO|the ERP|
        Vault|the build farm|Odoo""",
    "role": """Depot contact|Site manager|Account owner|Password admin|Key holder|Security contact|Wi-Fi admin|
        On-call lead|Database owner|Login support|Door and alarm contact|Escalation contact|
        Account manager at AWS|VPN contact|Credential custodian|Key user for SAP|Root account holder|
        Access card office|Locksmith|Alarm company|Night guard|Vault administrator|PKI owner|
        Secrets steward|User support|PIN office|Head of IT|Facility manager|Token owner""",
    "ext": "4420|117|2038|71|5512|9-204|6003|812|3345|48",
    "phone": "+49 30 5557712|020 7946 0123|+33 1 70 18 99 10|555-0142|0800 111 222|+90 232 555 0199",
    "mail": "it@example.org|aylin.demirkan@example.com|helpdesk@corp.example|w.zhang@example.net",
    "room": "312|B-204|1.07|E12|0.33|417a|2-118|14",
    "year": "2019|2021|2022|2023|2024|2025",
    "day": "Monday|next week|1 March|12 May 2025|the summer|Q3|Friday|week 14",
    "team": """Platform|Facilities|IT Operations|SRE|Team Falcon|Finance|the service desk|Field Support|Blue Team|
        Logistics""",
}
_WORDS = {name: [" ".join(one.split()) for one in words.split("|")] for name, words in _SLOTS.items()}
LEARNT = """
{role} is now {person} (ext. {ext})
{role} is now {person}; {first} has left
{role} is {person}.
{role}: {person}
{role}: {person}, {phone}
{role} since {year}: {person}
{role} for {place} was {person} until {day}.
hosted on {vendor} {region}
{service} is hosted on {vendor} {region}
{vendor} {region} as of today
{service} now runs in {region}
Password resets for {service} are done by {person} since {year}.
Password resets go to {person}
Wi-Fi in {place} is run by {person}.
The Wi-Fi in {place} comes from {vendor}.
Logins for {service} are handled by {team}.
Login problems in {place}: call {person}, extension {ext}
The admin of {service} is {person}.
The admin account of {service} belongs to {person}.
The user who reported it is {person}.
The key for {place} is with {person}.
The keys to {place} are kept by {person}.
The key to the server room hangs in room {room}.
{first} has the key to {place}; {person} has the spare.
The door code for {place} is known to {person} and {first}.
Ask {person} for the door code of {place}.
The safe in {place} was bought from {vendor}.
The safe is in {place}, room {room}.
The alarm in {place} is serviced by {vendor}.
The alarm is answered by {person} at night.
The password manager is {vendor}.
We moved our passwords from {vendor} to {vendor}.
Secrets live in {vendor} now, not in {vendor}.
The token service runs on {host}.
Credentials for {service} are managed by {team}.
The root account of {vendor} is owned by {person}.
root on {host} is {person}'s job
{person} is admin on {host}.
{person} unlocks {place} at seven.
{host} is now in {region}.
{host} moved to {vendor} {region}.
Backup server is now {host}
Login host is {host}
The new VPN gateway is {host}.
The VPN endpoint is {host} in {place}.
Primary database is {host}, replica is {host}
SSH access goes through {host}
To log in, use {host}.
Connect with {host} over the VPN.
{service} admin: {person} / {team}
{service} contact: {person}, room {room}
{service} account manager is {person} from {vendor}
PIN letters are sent out by {person}.
PIN pads come from {vendor}.
Access cards are printed by {person} in room {room}.
Access to {place} is granted by {person}.
Access code requests go to {mail}
Security questions go to {person}.
Security guard at the gate is {person}.
The gate in {place} is opened by {person} on {day}.
The code owner of {service} is {person}.
Code review for {service} is with {first}.
{person} wrote the code for {service}.
The alarm company is {vendor}, phone {phone}.
The locksmith is {person}, {phone}.
Our account at {vendor} is under {person}.
Account name at {vendor} is {team}
From now on {person} handles {service}.
As of today {person} owns {service}.
It is now {person} who runs {service}.
{service} is now with {team}.
The default region is {region}.
The default printer is {host}.
We use {vendor} in {region}.
They use {vendor} and {vendor}.
The new one is in {place}.
The old one was {vendor}.
Try {person} first, then {first}.
Unlocking accounts: {person} (ext. {ext})
If you are locked out, call {person}.
Locked out? {person}, ext {ext}
Sign in at {place} with {person}.
{person} signs in visitors at {place}.
Guest network in {place}: {vendor} hardware, run by {person}
Hotspot in {place} is provided by {vendor}
SSID names in {place} follow the scheme of {vendor}
Key account: {person}
Key contact is {person}
The key person for {service} is {person}.
Seed funding was led by {person}.
The recovery site is {place}.
Recovery contact is {person}.
Recovery of {service} was led by {first}.
Two-factor rollout is led by {person} with {vendor}.
MFA tokens are handed out by {person}, room {room}
Passkeys are rolled out by {person} in {place}
The combination of {vendor} and {vendor} works well.
The pet of {first} is called Biscuit.
{first}'s best friend is {person}.
{first} was born in {place}.
City of birth of {first}: {place}
{first}'s nickname is Momo.
{first}'s favourite teacher was {person}.
Voicemail of {team}: ext. {ext}
Conference room key is at reception, {place}
Dial-in for {team}: {phone}
{team} sits in {place}, room {room}.
{person} joined {team} in {year}.
{person} replaced {person} as owner of {service}.
Certificates for {host} are renewed by {person}.
API keys for {vendor} are issued by {person} on {day}.
The API is served from {region}.
Key rotation is on {day}, owner {person}
Token rotation: {person}, every {day}
Password policy is owned by {person}
Passwords are reset on {day} by {team}
License keys are bought by {person} from {vendor}
The license server is {host}
Secret santa is organised by {person}.
Door 3 in {place} sticks; tell {person}.
The intercom at {place} rings {person}.
Parking at {place} is booked with {person}, ext. {ext}
Zoom host is {person}
The meeting is in {place}, host {person}
Box office: {person}
Cloud: {vendor} {region}
Region: {region}
Provider: {vendor}
Contact: {person}
Owner: {person} <{mail}>
Host: {host}
Tailscale exit node is {host}
Kennwort-Rücksetzungen macht {person}.
Das WLAN in {place} betreut {person}.
Das WLAN in {place} ist von {vendor}.
Ansprechpartnerin für {service} ist jetzt {person} (Durchwahl {ext})
Den Schlüssel für {place} hat {person}.
Der Schlüssel liegt bei {person} in Raum {room}.
Administrator von {service} ist {person}.
Der Server heißt {host} und steht in {place}.
Passwörter verwaltet {team} in {vendor}.
Für den Türcode bitte {person} fragen, App. {ext}
Der Alarm in {place} wird von {vendor} gewartet.
Zugang zu {place} gibt {person} frei.
Benutzerkonten: {person}, Durchwahl {ext}
Les mots de passe de {service} sont gérés par {person}.
Le Wi-Fi de {place} est géré par {person}.
Contact du dépôt : {person} (poste {ext})
La clé de {place} est chez {person}.
Le compte {vendor} est au nom de {person}.
L'administrateur de {service} est {person} depuis {year}.
Le code d'accès est distribué par {person}.
Hébergé chez {vendor} {region}
Las contraseñas de {service} las restablece {person}.
El wifi de {place} lo lleva {person}.
El contacto del depósito es ahora {person} (ext. {ext})
La llave de {place} la tiene {person}.
La cuenta de {vendor} es de {person}.
Usuario administrador: {person}
Alojado en {vendor} {region}
Le password di {service} le gestisce {person}.
Il Wi-Fi di {place} è gestito da {person}.
Il contatto del magazzino è ora {person} (int. {ext})
La chiave di {place} è da {person}.
L'amministratore di {service} è {person}.
As senhas de {service} são tratadas por {person}.
O Wi-Fi de {place} é gerido por {person}.
O contacto do armazém é agora {person} (ramal {ext})
A chave de {place} está com {person}.
De wifi in {place} wordt beheerd door {person}.
Wachtwoorden reset {person}, toestel {ext}
De sleutel van {place} ligt bij {person}.
Пароли для {service} сбрасывает {person}.
Вайфай в {place} ведёт {person}.
Ключ от {place} у {person}.
Администратор {service} — {person}, доб. {ext}
{service} 的密码由 {person} 重置
{place} 的无线网络由 {person} 负责
钥匙在 {person} 那里
{service} のパスワード再設定は {person} が担当
{place} の鍵は {person} が持っている
管理者は {person} です
"""
OTHERS = """
{role} changed: {person} took over from {person}
{role} at {place} is {person}, reachable on {ext}
New {role} {person} starts {day}
{role} — {person} ({mail})
{person} is the new {role}, {first} moved to {place}
{role} was {person}, is now {person}
Please send password questions to {person}.
Forgotten passwords in {place}: {person} helps
The password reset desk is in {place}.
The password for {service} is kept by {person}.
The password of {service} is known only to {person}.
The {service} login page is served by {host}
The login server is {host} in {region}.
The login for {service} goes through {vendor}.
Wi-Fi at {place}: contact {person}, ext. {ext}
Wi-Fi vendor is {vendor}
WLAN controller is {host}
The guest Wi-Fi in {place} is sponsored by {vendor}.
The code for {service} lives on {host}.
The entry code for {place} comes from {person}, not from {first}.
The safe key is held by {person}
Safe: {vendor}, installed {year}
The alarm panel is made by {vendor}
Alarm contact {person}, {phone}
Our secrets manager is {vendor} in {region}
Vault runs on {host}, unsealed by {person}
Unlock requests: {person}, room {room}
The user with most tickets is {person}.
User {first} moved to {place}
Account recovery: {person}, {mail}
Accounts are created by {person} in {place}.
The admin on duty is {person}
Admin: {person}
The root CA is on {host}, run by {person}
ssh {host} is blocked from {region}
{host} ({region}) is owned by {person}
Host {host} moved from {place} to {place}
Default gateway is {host}
We host {service} with {vendor} in {region} since {year}
Everything is in {region} now, nothing in {region}
It used to be {vendor}, now it is {vendor}
As of {day}, {person} is {role}
Effective immediately {person} covers {service}
{first} still runs {service}
From {day} the new one is {person}
Note to self: {person} has the keys of {place}
Remember: {person} is in {place} on {day}
Keys: {person} (main), {first} (spare)
Key cabinet in {place} is looked after by {team}
API key owner is {person}
Token owner for {vendor} is {person}
The signing key ceremony is led by {person} in {place}.
Credentials team: {person}, {first}
PIN resets: {person}, ext. {ext}
PIN support is {person}
Card office: {person}, {place}, room {room}
Badge for {place} from {person}
Mother tongue of {first} is Turkish.
{first}'s first car was a Saab.
Nickname of {host} is Bertha
{first} went to school in {place} with {person}
Birthplace: {place}
{person} answers the security phone in {place}
Security is {vendor}
Backup admin is {first}
Backup codes are printed by {person} on {day}
Recovery keys are escrowed with {vendor}
Master key holder is {person}
The seed round was led by {vendor} and {person}
Conference host: {person}, {place}
Locker 14 belongs to {person}
Gate 7 is run by {person}
Garage in {place} closes with {person} on {day}
Printer {host} sits in room {room}
Connect as usual through {host}
Sign-in desk is {place}
{vendor} signs us in through {region}
Sudo rights on {host}: {person}, {first}
Typing course is held by {person}
Passwort-Chefin ist jetzt {person}
Passwortfragen bitte an {person}, Tel. {ext}
Der Zugang läuft über {host}.
WLAN-Ansprechpartner: {person}
Schlüsselverwaltung: {person}, Zimmer {room}
Der neue Admin ist {person}.
Konto bei {vendor} läuft auf {person}
Le mot de passe est géré par {person}
Responsable des clés : {person}
L'alarme de {place} est surveillée par {vendor}.
Identifiants : voir avec {person}, poste {ext}
Responsable de contraseñas: {person}
Las llaves están con {person} en {place}
El servidor de acceso es {host}
La password la cambia {person}
Referente per gli accessi: {person}
Chaves com {person}, sala {room}
Responsável pelas senhas: {person}
Sleutels bij {person} in {place}
Hasła resetuje {person}
Lösenord hanteras av {person}
За ключи отвечает {person}
Пароль знает только {person}
密码管理员是 {person}
钥匙由 {person} 保管
パスワード担当は {person}
鍵の管理は {person}
"""


def facts(forms: str, seed: int, each: int) -> Iterator[str]:
    """So many texts of each form, drawn from a seed."""
    rng = random.Random(seed)
    for form in forms.strip().split("\n"):
        for _ in range(each):
            yield re.sub(r"\{(\w+)\}", lambda match: _drawn(rng, _WORDS[match[1]]), form)


def _drawn(rng: random.Random, words: Sequence[str]) -> str:
    return rng.choice(words)
