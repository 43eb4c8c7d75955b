"""Patterns: the table of prompt-injection tricks that `defang` searches for.

Patterns are matched against folded text: lower case, without accents, nothing invisible. `_WRITTEN` ones look at the
structure, with line breaks kept; `_SPOKEN` ones at the words on one line. Every gap is bounded, so that no text is
slow to read. On poisoned texts that it was not written for the table saw about half: a first net, while quoting and
`defang` hold whatever passes it. A new pattern comes with a poisoned and an honest example in
tests/support/poison_corpus.py.

In a table a row at the margin names the kind, one indented by two starts a pattern, one by four continues it;
<NAMES> stand for the parts below.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from state.injection.hints import Hints, hints_of
from state.text.patterns import late_pattern


class Poison(StrEnum):
    """The kinds of trick."""

    OVERRIDE = "override"
    ROLE = "role"
    STANDING_ORDER = "standing order"
    FAKE_SYSTEM = "fake system text"
    TOOL_CALL = "tool call"
    MEMORY_ORDER = "order to remember"
    EXFILTRATION = "exfiltration"
    CONCEALMENT = "concealment"
    PROMPT_THEFT = "prompt theft"
    AUTHORITY = "false authority"
    ADDRESS = "address to an AI"
    ENCODED = "encoded"
    OBFUSCATED = "obfuscated"
    HIDDEN = "hidden text"
    STRUCTURE = "forged structure"
    POINTER = "forged pointer"
    LOG_ENTRY = "forged log entry"
    UNREAD = "too much to read"


_PARTS = {
    "<ROLE>": r"(?:system|assistant|developer|administrator|admin)(?: (?:message|prompt|note|notice|update|alert))?",
    "<ADDRESSED>": (
        r"(?:you|your|ignore|disregard|forget|override|obey|from now|new instructions?|reveal|reply|respond|comply|"
        r"safety|the (?:assistant|agent|model|ai))\b"
    ),
    "<SECRET>": (
        r"(?:api[ _-]?keys?|keys?|tokens?|passwords?|secrets?|credentials?|conversations?|chat history|chat logs?|"
        r"memory\.md|(?:your|its) memor(?:y|ies)|memory contents?|system prompt|environment variables?|env vars?|"
        r"\.env|ssh|(?:user|customer|personal|private|all|sensitive)(?:'s)? (?:data|files?|details|info\w*)|"
        r"everything you know)"
    ),
    "<PLACE>": r"(?:https?://|ftp://|www\.|[\w.+-]{1,40}@[\w-]{1,40}\.\w)",
}

_WRITTEN = r"""
forged log entry
  \[\d{4}-\d\d-\d\d[t ][^\]\n]{0,30}\]\s*\(\s*importance\s*:
  \[auto\]\s*hormonal event
forged pointer
  (?:→|⟶|➔|➜|⇒|[-=]{1,3}>)\s*search\s*:\s*`
forged structure
  ^\s*(?:[-*>+][ \t]*){0,9}#{1,6}\s*(?:the phenotype|the bond|the niche|active context|crystal pointers|
    curiosity gaps|
    emerging skills|working memory state|unsynthesized notes|scratch buffer)\b
  →\s*confidence:\s*\d+\s*%\s*\|\s*occurrences:
  <!--\s*(?:pin(?:ned)?\b|dream-generated)
  ^\s*_?last dream:.{0,60}\bmood:
  </(?:notes?|memory|memories|untrusted[\w-]*|tool_results?|function_results?|evidence|scratch|user_input|
    transcript)>
  [-=*#]{3,}\s*(?:end|begin(?:ning)?|start) of (?:the )?(?:untrusted |user |system )?(?:data|notes?|context|
    document|input|memory|transcript|prompt|instructions|content)\b
  [\"'](?:op|operations)[\"']\s*:\s*(?:[\[]|[\"'](?:add|revise|merge|evict)[\"'])|[\"']insights[\"']\s*:\s*\[
  ^\s*op:\s*(?:add|revise|merge|evict)\b
  ^\s*[nclgt]\d{1,4} \((?:pinned|(?:note|crystal|insight|open question)[^)\n]{0,60})\)\s*:\s*\"
  [\"']consumed[\"']\s*:\s*\[
  ^\s*your last answer was refused
  confidence\W{0,6}\d{1,3}\s?%.{0,20}\boccurrences\W{0,6}\d|^\s*emerging skills?\b.{0,60}\bconfidence\b
  ^\s*-{3}\n(?:.*\n){0,3}?description:.{0,80}\n(?:.*\n){0,4}?-{3}\n
  <h[1-6]\b[^>]{0,80}>\s*(?:the phenotype|the bond|the niche|active context|crystal pointers|curiosity gaps|
    emerging skills|working memory state)
  ^\s*(?:the phenotype|the bond|the niche|active context|crystal pointers|curiosity gaps|emerging skills|
    working memory state)\s*\n\s*[=-]{3,}
hidden text
  <!--[^>]{0,80}\b(?:ai|assistants?|agents?|llms?|copilot|claude|gpt|chatbots?|bots?)\b
  ^\s*\[//\]:\s*#|^\s*\[[^\]\n]{0,40}\]:\s*#\s*[(\"']
  <\w{1,12}\b[^>\n]{0,120}\b(?:color\s*[:=]\s*[\"']?(?:#fff(?:fff)?|white|transparent)\b|left\s*:\s*-\d{3,}px|
    aria-hidden\s*=\s*[\"']?true)[^>\n]{0,80}>.{0,60}\b(?:ai|assistants?|agents?|bots?|models?|you|your|must)\b
  <(?:div|span|p|section|noscript|details)\b[^>\n]{0,60}\bhidden\b[^>\n]{0,40}>.{0,60}\b(?:ai|assistants?|agents?|
    bots?|models?|you|your|must)\b
  \balt\s*=\s*[\"'][^\"'\n]{0,30}\b(?:ai|llm|assistants?|agents?|bots?|models?|ignore|system)\b
  <!--.{0,20}\b(?:ai|assistant|agents?|llm|claude|gpt|system|instructions?)\b
  style\s*=\s*[\"'][^\"'\n]{0,80}(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|
    opacity\s*:\s*0\b)
tool call
  </?(?:\w{1,12}:)?(?:function_calls?|tool_calls?|tool_use|invoke|tool_code)\b[^\n]{0,80}>
  [\"'](?:tool|tool_name|function|name|recipient_name)[\"']\s*:\s*[\"'][\w.-]{1,60}[\"']\s*,\s*[\"'](?:arguments|
    args|parameters|input|tool_input)[\"']\s*:
  [\"'](?:tool_calls?|function_call|tool_use)[\"']\s*:\s*[\[{\"]
  ^\s*action\s*:\s*[\w.-]{1,60}\s*[\n;|]\s*action input\s*:
  \[tool_calls\]|</?(?:use_mcp_tool|tool_name|server_name)\b|\bto=functions\.\w|<\|(?:python_tag|channel|message|
    call)\|>
  ^\s*`{3}\s*tool_code\b|\bfunctions\.\w{1,30}\(\s*\{|[\"']method[\"']\s*:\s*[\"']tools/call[\"']
  [\"']type[\"']\s*:\s*[\"'](?:function|tool_use)[\"']\s*,(?:[^{}\n]{0,60}[\"'](?:name|function)[\"']\s*:)
fake system text
  </?(?:start_of_turn|end_of_turn|admin|developer|system-reminder)\b[^>\n]{0,20}>|<\|[a-z_]{2,20}\|>
  ^\s*(?:human|user)\s*:[^\n]{1,200}\n+\s*(?:ai|assistant)\s*:
  [\"']role[\"']\s*:\s*[\"'](?:system|developer)[\"']\s*,\s*[\"']content[\"']
  ^\s*[-=#*]{2,}\s*(?:system|developer)(?: message| prompt| note)?\s*[-=#*:]{1,}
  ^\s*#{2,}\s*(?:system|assistant|human)\s*:?\s*$
  ^\s*[\[(<]\s*(?:new )?(?:instructions?|directive)s?\s*[\])>]\s*:?\s*\w
  \b(?:begin|start|end) (?:of )?(?:system|hidden|new|admin) (?:prompt|instructions?|message)\b(?!s? (?:is|are|was|
    in|of))
  <\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text)\|?>
  \[/?inst\]|<</?sys>>|</?system(?:[-_ ]?(?:prompt|message|reminder|instructions?))?\s*>
  #{2,}\s*(?:instructions?|system|response|human|assistant)\s*:
  ^[ \t>*#_~\[({<-]{0,20}<ROLE>[\])}>*_]*\s*:[\s*_]*(?:[^\n]{0,40}\b)?<ADDRESSED>
  [\[(<]\s*<ROLE>\s*[\])>]\s*:?\s*(?:[^\n]{0,40}\b)?<ADDRESSED>
  \bsystem (?:override|command|instruction|directive)s?\s*[:\])!]
"""

_SPOKEN = r"""
override
  \b(?:ignore|disregard|disobey|stop (?:obeying|listening to|following|helping)) (?:what |whatever |
    everything )?the (?:user|owner|human)(?:'s (?:instructions?|orders|requests?|
    wishes)| says| asks| wants| and (?:listen|obey|follow|do)|$|[.!;])
  \ball (?:previous|prior|earlier) (?:rules|restrictions|guidelines|policies) (?:are|were|
    have been) (?:now )?(?:void|cancel+ed|revoked|lifted|suspended)\b
  \b(?:listen|answer) only to me\b|\b(?:and|only) (?:listen to|obey) me\b|\boublie tout ce qu|
    \bolvida todo lo (?:anterior|que)\b|\bbefolge (?:ab (?:sofort|jetzt) |nur |ausschlie)
  \b(?:previous|prior|earlier|original|existing|current) (?:instructions?|prompts?|directives?|orders) (?:are|is|
    were|have been)(?: now| hereby)? (?:void|cancel+ed|revoked|invalid|obsolete|superseded|suspended|overridden|
    replaced|null)\b
  \byou (?:now )?(?:work for|belong to|serve|answer to|report to|take orders from) me\b|\bdo (?:anything|
    everything|whatever|exactly what) i (?:say|ask|tell|want)\b
  \b(?:follow|obey|carry out|execute|comply with|act on) (?:these|the following|its|those|my|
    all) (?:new )?(?:orders?|instructions?|commands?|directives?)\b.{0,20}(?:instead|without|immediately|exactly|:|
    \bonly\b)|\b(?:then|and) (?:carry out|execute|follow|obey) its (?:orders?|instructions?|commands?)\b
  \bno (?:sigas|siga|obedezcas|hagas caso (?:a|de))\b.{0,20}\b(?:instrucciones|reglas|ordenes|indicaciones)\b
  \b(?:uberspring\w*|umgeh\w*|deaktivier\w*|ignorier\w*)\b.{0,20}\b(?:alle|deine|jegliche|
    samtliche) (?:sicherheits|schutz)\w+
  \b(?:ignore|disregard|forget|override|bypass|discard|neglect|do not follow|don'?t follow|stop following|
    abandon)\b (?:\w+ ){0,4}?(?:previous|prior|above|earlier|preceding|foregoing|system|your|original|
    initial)\b(?: \w+){0,3} (?:instructions?|prompts?|rules?|guidelines?|directives?|directions?|commands?|
    constraints?|restrictions?|policies|programming|training|context|guardrails?|orders?|memories)\b
  \b(?:ignore|disregard|forget)\b (?:all |any )?(?:everything|anything|all|whatever|what)\b.{0,20}\b(?:above|
    before this|you (?:were|have been|are|know|learned)|you've been|told you|i said)\b
  \b(?:ignore|disregard) (?:all )?(?:the )?instructions (?:above|before|given|from|in)\b
  \b(?:your (?:new|real|true|actual|only|sole) (?:instructions?|task|goal|objective|directive|mission|purpose|
    job) (?:is|are)\b|(?:new|updated|real|revised) instructions?(?: for you| from \w+)?\s*:)
  \b(?:ignorier\w*|vergiss|vergessen sie|missachte\w*)\b.{0,30}\b(?:vorherig|bisherig|fruher|obig|vorangegangen|
    vorig|deine|ihre|alle)\w*\b.{0,25}(?:anweisung|instruktion|befehl|vorgabe|systemprompt|regeln)
  \b(?:ignore[zsr]?|oublie[zsr]?|neglige[zsr]?|ne (?:tiens|tenez) (?:pas|plus) compte)\b.{0,30}\b(?:instructions?|
    consignes?|regles?|directives?|ordres?)\b.{0,20}(?:precedent|anterieur|ci-dessus|initial|systeme)
  \b(?:ignore[zs]?|oublie[zs]?) toutes (?:les|tes|vos) (?:instructions|consignes|regles)
  \b(?:ignora|ignore|ignorad|olvida|olvide|omite|descarta|(?:haz|haga) caso omiso)\b.{0,30}\b(?:instrucciones|
    reglas|ordenes|indicaciones|directrices)\b.{0,25}(?:anterior|previas|del sistema|de arriba|original)
  \b(?:ignora|ignore|olvida|olvide) todas (?:las|tus|sus) (?:instrucciones|reglas|ordenes)
  \b(?:ignore|esqueca|desconsidere)\b.{0,30}\binstrucoes\b.{0,20}(?:anteriores|previas|do sistema)
  \b(?:ignora|dimentica)\b.{0,30}\bistruzioni\b.{0,20}(?:precedenti|del sistema)
  (?:忽略|无视|無視|忽視|忘记|忘掉|不要理会).{0,8}(?:之前|以前|以上|上面|上述|先前|前面|所有|一切|全部|系统|你的|您的).{0,8}(?:指令|指示|提示|规则|規則|要求|命令|说明)
  (?:以前|前|上記|これまで|すべて|全て)の?.{0,8}(?:指示|命令|ルール|プロンプト).{0,6}(?:無視|忘れ)
  \b(?:про)?(?:игнорируй|забудь)\w*\b.{0,20}\b(?:предыдущ|прошл|все|систем|прежн)\w*\b.{0,20}(?:инструкц|указан|
    правил|команд)
role
  \byou (?:are|'re) (?:now (?:an? |the |in |dan\b|my |free|unrestricted|called|operating|evil|acting)|
    no longer (?:bound|an? |restricted|the ))|\byou're now (?:an? |the |in |dan\b|free)
  \b(?:act|behave|pretend|role-?play|respond|answer)\b (?:as|like|to be|that|you)\b.{0,60}\b(?:without (?:any |
    all )?(?:restrictions?|rules|limits|filters?|guidelines|ethics|safety)|(?:no|free of) (?:restrictions?|rules|
    limits|filters?)|unfiltered|uncensored|unrestricted|jailbr\w+|dan\b)
  \b(?:dan|god|jailbreak|unrestricted|do anything now) mode\b.{0,20}\b(?:enabled|activated|on|unlocked)\b
  \bdeveloper mode\b.{0,20}\b(?:enabled|activated|on)\b.{0,60}\b(?:you|your|restrictions|filters)\b
  \byour new (?:name|persona|role|identity|personality) is\b|\badopt the persona\b
  \bdu bist (?:jetzt|nun|ab sofort|ab jetzt|nicht (?:mehr|langer))\b|\btu es (?:maintenant|desormais)\b
  \b(?:ahora eres|a partir de ahora eres|agora voce e|ora sei)\b|\b(?:теперь ты|ты теперь)\b
  你现在是|你不再是|请?扮演(?:一个)?.{0,10}(?:没有|不受).{0,4}限制|假装你(?:是|没有)
order to remember
  \b(?:remember|memori[sz]e|never forget|keep in mind)\b,?(?: this)?[:,]?(?: that)? you (?:must|will|always|never|
    have been|are (?:now|an? |the |my |authori[sz]ed|allowed|required|no longer))
  \b(?:save|store|write|add|append|put|persist|commit|record|insert|copy|remember)\b.{0,60}\b(?:to|in|into|
    as)\b your (?:own )?(?:long[- ]?term |persistent |permanent |working |core )?(?:memor(?:y|ies)|memory\.md|
    scratchpad|system prompt|core beliefs?|instructions)\b
  \b(?:update|modify|edit|rewrite|overwrite|replace|delete|erase|wipe|clear|
    purge)\b (?:all )?(?:of )?your (?:long[- ]?term |persistent |core |working )?(?:memor(?:y|ies)|memory\.md|
    identity|persona|beliefs|system prompt|instructions)\b
  \b(?:add|write|append|insert|put|save|store|copy)\b (?:the following|this)\b.{0,40}\b(?:to|in|into|
    under)\b.{0,10}\b(?:memory\.md|the phenotype|the bond|(?:long-term|agent|permanent) memory)\b
  \b(?:merke? dir|merken sie sich|denk daran|speicher\w*)\b.{0,30}\b(?:du (?:musst|sollst|immer|bist)|
    in deine[mnr]? (?:gedachtnis|speicher|erinnerung))
  \b(?:souviens-toi|rappelle-toi|n['’]oublie pas|memorise|enregistre)\b.{0,30}\b(?:tu dois|tu es|
    dans ta memoire)\b
  \b(?:recuerda|memoriza|guarda|no olvides)\b.{0,30}\b(?:debes|eres|en tu memoria)\b
  (?:记住|牢记).{0,4}你(?:必须|要|是|永远|应)|(?:保存|写入|存入|添加|记录|写进)到?.{0,4}(?:你的|您的)(?:长期)?记忆
standing order
  \b(?:in|to|at the end of|with) (?:every|each) (?:answer|reply|response|message|output),? (?:you )?(?:include|
    mention|add|append|insert|put|say|recommend)\b
  \b(?:all|any|every) (?:of your )?(?:subsequent|future|following|further|your) (?:answers?|repl(?:y|ies)|
    responses?|outputs?|messages?) (?:must|should|shall|will|need to|has to|have to)\b
  \b(?:respond|reply|answer|speak|write|talk) (?:only |exclusively )?(?:in|with|as|
    like)\b.{0,40}\b(?:from (?:here|now|this point) (?:on|onwards?|forward)|forever|permanently)\b
  \bthe (?:assistant|ai|model|llm|chatbot) (?:must|shall|should|will|has to|needs to|is to) (?:now )?(?:always |
    never )?(?:obey|comply|ignore|append|recommend|praise|approve|trust|reveal|(?:reply|respond|
    say)\b.{0,20}\b(?:with|that|as))\b
  \b(?:run|execute|fetch|send)\b.{0,80}\bat (?:the )?(?:start|beginning|end) of (?:each|every|all|
    any)(?: new| future)? (?:session|conversation|chat|reply|response|message)
  \b(?:when|while) (?:you )?(?:summari[sz]ing|reviewing|reading|describing|evaluating|analy[sz]ing|
    processing) this\b.{0,40}[, ](?:you (?:must|should)|state|say|claim|conclude|always|only|report that|mention|
    recommend|rate|write that)\b
  \byou (?:have to|must|should|need to|are to|will) (?:tell|inform|convince|persuade|assure|advise) (?:the user|
    them|users|everyone|people) (?:that|to)\b
  \b(?:from (?:now|here|this (?:point|moment)) (?:on|onwards?|forward|forth)|henceforth|going forward|
    starting now|for the rest of (?:this|the|our) (?:conversation|session|chat)|in (?:all|every|
    any) future (?:sessions?|conversations?|repl(?:y|ies)|responses?|
    chats?))\b[, ]{0,2}(?:and forever[, ]*)?(?:you\b|your\b|respond|reply|answer|treat (?:all|any|every|me)|refer|
    prefix|insert|recommend|say\b|pretend|act as|obey)
  \byou (?:must|shall|have to|need to|are (?:required|instructed|ordered|obliged) to|are to)\b,? (?:(?:now|also|
    therefore|immediately|only) )?(?:always|never|obey|comply with|ignore (?:all|any|your)|disregard|reveal|
    respond (?:only|as)|only respond|reply (?:only|with the)|recommend|pretend|remember|behave as|not (?:tell|
    reveal|mention|inform|disclose|refuse|question))\b
  (?:^|[.!?:;,>*-] ?|\band |\bplease )(?:always|never) (?:obey|comply|recommend|refuse|say\b|tell the user|
    (?:respond|reply|answer)(?: \w+)? (?:with|that|as)\b|include the (?:phrase|link|text|words|sentence)|(?:end|
    begin|start|finish) (?:each|every|your|all)\b)
  \b(?:when(?:ever)?|if|every time|each time|any ?time|once)\b,? (?:the |a |any )?(?:user|human|owner|customer|
    someone|anyone)\b.{0,40}\b(?:asks?|mentions?|requests?|says?|wants?|opens?|starts?|types?|
    inquires?)\b.{0,60}[, ](?:then )?(?:you (?:must|should|will)|reply|respond|answer with|recommend|tell (?:them|
    him|her|the user)|say\b|refuse|claim|insist|direct (?:them|him|her)|send|forward)\b
  \b(?:at|before|after|on) (?:the )?(?:start|beginning|end) of (?:each|every|all|any)(?: new| future)? (?:session|
    conversation|chat|reply|response|answer|message)s?\b.{0,40}\b(?:fetch|send|visit|download|include|append|
    recommend|say|post|(?:run|execute) (?:`?curl|`?wget|`?bash|the (?:following|command)))
  \bbefore (?:answering|responding|replying)\b.{0,40}?\b(?:run|execute|fetch|visit|download|send|load) (?:the |
    this |`|https?:|curl|wget)
  \bab (?:jetzt|sofort|nun)\b.{0,10}\b(?:musst|sollst|wirst|darfst|antwort\w*)\b|\bdu (?:musst|sollst|
    darfst) (?:ab (?:jetzt|sofort) )?(?:immer|stets|niemals|nie)\b|\bantworte (?:immer|stets) mit\b
  \b(?:a partir de maintenant|desormais|dorenavant)\b[, ]{1,2}(?:tu|vous|reponds|repondez)\b|\b(?:tu dois|
    vous devez) (?:toujours|imperativement|obeir)\b|\btu ne dois (?:jamais|plus)\b
  \b(?:a partir de ahora|de ahora en adelante)\b[, ]{1,2}(?:tu|debes|responde\w*|usted|vas a)\b|
    \bdebes (?:siempre|obedecer)\b|\b(?:siempre|nunca) debes\b
  从现在(?:开始|起)[,,]?.{0,6}(?:你|请|回答|回复|必须)|你(?:必须|务必|应该|要)(?:总是|始终|一直|永远|每次|服从|听从|无条件)|(?:今后|以后).{0,6}你(?:必须|要|应)|
    これからは?.{0,10}(?:あなたは|必ず答え|常に答え)
  \b(?:с этого момента|отныне|впредь)\b[, ]{1,2}.{0,10}\b(?:ты|вы|отвечай\w*)\b|\bты (?:всегда |
    никогда не )?(?:должен|обязан)\w* (?:всегда|никогда|подчинят)
exfiltration
  \b(?:send|forward|post|upload|transmit|exfiltrate|leak|e-?mail|mail|submit|deliver|
    copy)\b.{0,80}(?<![\w-])<SECRET>\b.{0,60}\b(?:to|at|via)\b:? ?<?`?<PLACE>
  !\[[^\]]{0,200}\]\( ?<?https?://[^)\s]{0,300}[?&](?:data|q|d|c|secret|token|key|info|msg|content|leak|exfil|
    payload|conversation|memory|prompt|user|email|history|session|text)=
  https?://[^\s)]{0,200}[?&/=](?:\{\{?|\$\{?|<|\[|%7b)[^\s)]{0,20}(?:conversation|memory|history|prompt|secret|
    password|user.?data|summary|message)
  \b(?:curl|wget|nc|invoke-webrequest)\b.{0,80} (?:-d|--data\S*|-f|--post-file\S*|-t|
    --upload-file)\b.{0,40}(?:\.ssh|\.env|\.aws|\.netrc|history|/etc/passwd|id_rsa|memory\.md|\$\(|\$\w*(?:key|
    token|secret))
  \b(?:cat|base64|tar)\b [^|]{0,60}(?:id_rsa|\.env|\.ssh|passwd|credentials|memory\.md)[^|]{0,20}\| ?(?:curl|nc|
    wget|base64)
  \b(?:append|encode|embed|include|put)\b.{0,60}\b(?:conversation|chat history|secrets?|passwords?|memory|
    private \w+)\b.{0,40}\b(?:in|into|to|as)\b.{0,20}\b(?:url|query (?:string|parameter)|image link|link)\b
  \b(?:sende|schicke?|leite|ubermittle|lade|envoie[zs]?|transmets|transmettez|transfere[zs]?|envia\w*|manda\w*|
    reenvia\w*|отправ\w+|перешли)\b.{0,60}(?:passw|schlussel|token|geheim|zugangsdaten|gesprach|verlauf|daten|
    mots? de passe|cles?\b|jetons?|secret|identifiants|conversation|donnees|contrasena|claves?\b|credencial|
    conversacion|datos|парол|ключ|секрет|данные).{0,60}<PLACE>
  (?:密码|密钥|令牌|凭证|对话|聊天记录|隐私|数据|记忆|机密).{0,20}(?:发送|发|上传|转发|提交|传).{0,4} ?<PLACE>
concealment
  \b(?:do not|don'?t|never|must not|should not)\b (?:ever )?(?:tell|inform|notify|alert|warn|
    let)\b.{0,10}\b(?:user|human|owner|operator|anyone|anybody)\b.{0,25}\b(?:this|these|it|that you|what you|your|
    know)\b
  \b(?:do not|don'?t|never|must not)\b (?:ever )?(?:mention|reveal|disclose|show|admit|discuss)\b (?:this|these|
    it|any of this|that you|your instructions|the(?:se)? instructions)\b
  \b(?:keep|hide|conceal) (?:this|it|these|that)\b.{0,30}\b(?:from (?:the )?(?:user|owner|human|operator)|
    between us)\b|\bkeep (?:this|these)\b.{0,30}\b(?:secret|hidden)\b
  \b(?:secretly|covertly)\b.{0,40}\b(?:send|forward|add|insert|run|copy|upload|recommend|include|modify)\b
  \b(?:sag|erzahl|verrat|erwahn)\w*\b.{0,30}\b(?:dem (?:nutzer|benutzer|anwender)|niemandem)\b.{0,30}\b(?:nicht|
    nichts|davon)\b|\bne (?:le )?(?:dis|dites|revele[zs]?|mentionne[zs]?|parle[zs]?)\b.{0,40}(?:l['’]utilisateur|
    a personne)|\bno (?:(?:se|le|les|lo|la) ){0,2}(?:digas|diga|menciones|reveles|informes)\b.{0,40}\b(?:al usuario|
    a nadie)\b
  (?:不要|别|不得|切勿|不能|勿)(?:告诉|告知|透露给|提醒|通知).{0,6}(?:用户|任何人|主人)
prompt theft
  \b(?:reveal|print|output|repeat|recite|dump|leak)\b (?:me )?(?:the|its|any) (?:\w+ )?(?:system prompt|
    hidden (?:prompt|instructions?)|initial prompt).{0,20}\b(?:verbatim|word for word|in full|exactly|now|
    completely)\b
  \b(?:output|print|reveal|give me|tell me|show|send me|disclose|list)\b.{0,20}\byour (?:api )?(?:keys?|
    credentials|secrets?|tokens?|passwords?)\b|\b(?:gib|nenne|verrate|zeige?)\b.{0,30}\b(?:passworter|zugangsdaten|
    schlussel|geheimnisse)\b.{0,12}\b(?:aus|heraus|preis)\b
  \b(?:reveal|print|show|output|repeat|display|leak|recite|disclose|give me|tell me|dump|write out|
    share)\b.{0,30}\byour (?:\w+ ){0,2}(?:system prompt|prompt|instructions?|system message|guidelines|rules)\b
  \brepeat (?:the (?:words|text|instructions)|everything|all (?:the )?(?:text|words|instructions)).{0,20}\babove\b
false authority
  \b(?:permission|approval|consent|confirmation)\b (?:is|was|has been) (?:already |always )(?:granted|given)\b
  \b(?:the )?(?:user|owner|admin\w*|developer) (?:wants|needs|asked|told|instructed|
    ordered) you to (?:\w+ ){0,2}(?:disable|ignore|bypass|delete|send|forward|approve|skip|turn off|share|reveal|
    grant|remove|trust)\b
  \b(?:this is|message from|i am|i'm|as|on behalf of|signed by|authori[sz]ed by)\b.{0,20}\b(?:your (?:developers?|
    creators?|administrators?|admin|operator|makers?|programmer)|anthropic|openai|google deepmind|
    the (?:ai )?safety team)\b.{0,80}\b(?:you|instruct|order|authori[sz]e|require|command|must|disable|obey|comply|
    grant)\b
  \b(?:user|owner|human|admin\w*)(?: has| have)?(?: already| fully| explicitly)* (?:pre-?)?(?:approved|
    authori[sz]ed|consented to|granted|given (?:full )?(?:permission|consent|approval))\b.{0,60}\b(?:do not|don'?t|
    no need to|never|skip|all future|any future|every)\b.{0,30}\b(?:ask|confirm\w*|approval|permission|verify|
    requests?|actions?|commands?|tools?)\b
  \byou (?:are|have been) (?:now |fully )?(?:hereby (?:authori[sz]ed|granted|permitted)|authori[sz]ed to|
    granted (?:full|root|admin|unrestricted)|cleared to)\b
  \b(?:disable|turn off|deactivate|bypass|remove|switch off|suspend)\b (?:all )?(?:of )?your (?:\w+ )?(?:safety|
    content|ethical|security|moderation|safeguards?|filters?|guardrails?|restrictions?)\b
address to an AI
  \b(?:instructions?|message|notice|note|warning|directive)s? (?:for|to) (?:all |any |the )?(?:ai|llm|
    language model|chatbot|assistant)s?(?: (?:models?|agents?|assistants?|systems?|readers?))? ?[:,!-]
  \b(?:as|being) (?:an? |the )?(?:ai|llm|language model)(?: (?:agent|assistant|model))?,? you (?:must|should|
    shall|will|need to|have to|are)\b
  \b(?:attention|hey|hello|dear|important|message|notice|note)\b,?(?: (?:to|for))?(?: (?:the|any|all))? (?:ai|
    llms?|language models?|chatbots?)\b(?: (?:agents?|assistants?|models?|systems?|
    readers?))?(?: reading this)? ?[:,!-]
  \bif you(?:'re| are) (?:an? )?(?:ai|llm|(?:large )?language model|ai (?:agent|assistant)|automated (?:agent|
    assistant))\b
encoded
  \b(?:decode|decrypt|deobfuscate|unpack)\b.{0,80}\b(?:and|then)\b.{0,20}\b(?:follow|execute|run|obey|comply|
    apply|act on|do what)\b
  \| ?base64 (?:-d|--decode)\b.{0,20}\| ?(?:ba|z)?sh\b
"""

_SQUEEZED = (
    r"(?:ignore|disregard|forget)(?:all|any|of|the|your|my){0,3}(?:previous|prior|above|earlier|preceding)"
    r"(?:instructions?|prompts?|rules|guidelines|directives)"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A pattern that shows a kind of trick, and the literals (hints) of which it needs one."""

    kind: Poison
    pattern: re.Pattern[str]
    hints: Hints


@cache
def written_patterns() -> tuple[Shown, ...]:
    """Compiled when first used: most commands never need them."""
    return _shown(_WRITTEN, re.MULTILINE)


@cache
def spoken_patterns() -> tuple[Shown, ...]:
    """Compiled when first used."""
    return _shown(_SPOKEN, 0)


@cache
def squeezed_pattern() -> re.Pattern[str]:
    """For text of which only letters are left, with every l written as i: 1 may stand for both."""
    return re.compile(_SQUEEZED.replace("l", "i"))


def _shown(table: str, flags: int) -> tuple[Shown, ...]:
    return tuple(Shown(kind, late_pattern(row, flags), hints_of(row)) for kind, row in _rows(table))


def _rows(table: str) -> Iterator[tuple[Poison, str]]:
    kind, pattern = Poison.OVERRIDE, ""
    for row in [*table.strip().split("\n"), ""]:
        if row.startswith("    "):
            pattern += row.strip()
            continue
        if pattern:
            yield kind, plain_pattern(pattern)
        pattern = row.strip() if row.startswith("  ") else ""
        kind = kind if pattern or not row else Poison(row)


def plain_pattern(pattern: str) -> str:
    """Without accents, as folded text is (nor has й its breve there): a table may be written as languages write."""
    for name, part in _PARTS.items():
        pattern = pattern.replace(name, part)
    bare = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", pattern)))
    return unicodedata.normalize("NFC", bare)
