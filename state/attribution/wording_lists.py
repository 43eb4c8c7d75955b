"""Wording lists: words of denial, of little meaning and of reported speech in nine languages, for `wording`.

An asterisk stands for any ending. A word that is missing here costs a stranger's claim that passes for the agent's
own where a voucher has denied or only reported it in the very same words.
"""

NEGATORS = """
not no never none without neither nor cannot nothing nobody avoid avoids avoided refuse refuses refused forbid
forbids
forbidden prohibit prohibits prohibited ban bans banned stop stops stopped skip skips reject rejects rejected ignore
ignores dislike dislikes hate hates except
nicht nie niemals kein keine keinen keiner keinem keines keinesfalls keinerlei nichts niemand ohne weder vermeide
vermeiden vermeidet verboten verbietet sperrt
pas jamais aucun aucune rien sans eviter evite evitez interdit interdite refuse
nunca jamás jamas ningún ningun ninguna nada nadie tampoco sin evita evitar prohibido prohíbe prohibe
não nao sem ninguém ninguem nenhum nenhuma evite proibido
non mai nessun nessuno nessuna niente nulla senza evitare vietato
не нет никогда ни без нельзя ничего никто избегать избегает запрещено запрещает
"""
# Said of whoever is spoken of, or so often that it tells nothing.
LIGHT = """
every each somebody someone anybody else everything something one ones thing things
call called calls named is say says said tell tells told ask asks asked want wants wanted user owner agent
note notes noted
heißt heisst genannt ist sagt sagte will soll est dit quiere quiero llama dice dijo diz disse ha detto chiama nutzer
usuario utente utilisateur appelle пользователь сказал зовут
"""
# What a text is that is not believed.
DOUBTED = """
claim claims claimed claiming alleg* purport* pretend* warn warns warned warning inject* phish* scam* malicious*
suspicious* dangerous* nonsense advice fake* untrusted spoof* hoax* poison* attack* bogus spam* trap* forged
supposed* wrong wrongly false falsely rumour* rumor* gossip* hearsay joke* joking myth untrue lie lies
angeblich* behaupt* warnt* warnung gefälscht* betrug* betrüg* schädlich* falsch* unsinn gefährlich* gerücht*
gelogen lüge* scherz*
prétend* avert* arnaque* hameçon* faux fausse rumeur* blague* mensonge* infondé*
afirma* advert* estafa* falso falsa supuest* engañ* rumor* bulo* broma* mentira*
alega* alerta* golpe* avisei suposto suposta boato* mentira* brincadeira*
sostien* avvert* truffa* presunt* diceri* bufal* scherz* pettegol*
якобы утвержда* предупре* мошенн* поддельн* ложн* обман* слух слухи шутк* сплетн* неправд* вран*
"""
# Who is neither the agent nor its owner.
SOURCES = """
page webpage website site article blog post readme issue comment* thread mail email message tool output log pdf file
document docs doc forum banner ad advert* vendor* snippet text it plugin package app popup ticket review tutorial
seite webseite artikel kommentar* nachricht datei dokument anhang werbung anzeige plugin
fichier pagina article commentaire* courriel annonce document fil
página sitio articulo artículo archivo correo mensaje comentario* foro anuncio
artigo arquivo mensagem anúncio fórum
sito articolo messaggio commento annuncio
страниц* сайт* стать* письм* файл* комментар* сообщени* реклам*
"""
SAYING = """
say says said saying tell tells told ask asks asked want wants wanted recommend* suggest* instruct* order* demand*
urg*
promis* read reads state states
sagt* steht stand heißt rät will wollte fordert* empfiehlt behauptet verlangt* bittet
dit disait demand* veut recommand* affirme*
dice decía pide pidió quiere recomienda exige
diz dizia pede pediu quer recomenda manda
chiede chiedeva vuole consiglia dichiara
говорит* просит* требует* советовал* советует хочет предлагает* пишет*
"""
