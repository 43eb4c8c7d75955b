"""Features: weak signs of prompt injection with weights that decide together where no pattern is sure.

A sign is a pattern over folded text on one line (lower case, no accents), with the kind of trick that it speaks for
and a weight. The weights of the signs that are in a passage add up; the passage commands when they reach 1. Negative
ones speak for a person who tells what they want, or asks. The weights are of a logistic fit on the tuning half of the
corpora in tests/poison (honest texts counted double), rounded, and some then lowered by hand where ordinary talk was
taken for orders; `python -m benchmarks.injection` says what they are worth.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from state.injection.hints import Hints, Pieces, hints_of
from state.injection.patterns import Poison, plain_pattern
from state.text.patterns import late_pattern

COMMANDS = 1.0
_ROUNDING = 1e-6
_WINDOW = 3  # sentences that are read together
_LONGEST = 600
# Folded text has ASCII marks in Chinese too, with no blank behind them.
_SENTENCE = late_pattern(r"(?<=[.!?;])(?:\s+|(?=[^\x00-\x7f]))|(?<=。)")
_EXAMPLES, _REPEATED = 4, 6
_TURN = late_pattern(
    r"[-*>#\s]*((?:q|a|user|assistant|human|ai|agent|bot|you|me|input|output|response|request|question|answer))\b"
    r"(?: ?\d{1,3})? ?:?(.{0,200})"
)
_QUESTION_LABELS = {"q", "a", "question", "answer", "input", "output", "request", "response"}
_SAME = late_pattern(r"[\d\W_]+")
_ABOUT_AGENTS = late_pattern(r"assistant|agent|user|obey|comply|complied|trusted|refuse|iwill|confirm")


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign. `weight` below 0: it speaks against."""

    name: str
    kind: Poison
    weight: float
    pattern: re.Pattern[str]
    hints: Hints

    @property
    def opens(self) -> bool:
        return self.pattern.pattern.startswith("^")

    @property
    def ends(self) -> bool:
        return self.pattern.pattern.endswith("$")


# name | kind | weight | pattern. A row that is indented continues the pattern above it.
_TABLE = r"""
calls an agent | address to an AI | 0.21 | (?:^|[.:!?(>"'\[=] ?|\b(?:dear|hey|hello|any|all|for|to|hi|note|
  attention)\b )
  (?:the )?(?:ai|a\.i\.|llms?|assistants?|(?:ai |coding |language )?agents?|bots?|chatbots?|copilot|claude|gpt|
  crawlers?|
  (?:large )?language models?|models?)\b ?(?:note|readers?|instructions?)? ?(?:[:,!(\[-]|(?:must|should|shall|are to|
  has to|
  have to|needs? to|will|drops?|accepts?|may)\b)
names the agent as servant | address to an AI | 0.26 | \b(?:the|this|any|an?|your|each|every) (?:ai )?(?:assistants?|
  agents?|bots?|
  models?|llms?|chatbots?)\b.{0,30}\b(?:must|should|shall|is to|are to|has to|trusts?|may|obeys?|expects?|
  accepts?|complie[sd]|(?:is|are) (?:allowed|expected|obliged|required))\b|
  \bexpects? (?:agents|assistants|bots) to\b|\ballows? (?:agents|assistants|bots) to\b|\bassistant should\b
tells the agent to | standing order | 0.26 | \byou (?:must|shall|will|are to|have to|need to|should|ought to|
  no longer|
  never|now|always|hereby|may now|can now|refuse)\b|\b(?:du|sie) (?:musst|sollst|wirst|bezahlst|darfst|gehorchst)\b|
  \b(?:tu dois|vous devez|debes|devi|deves|je moet|du maste|ты (?:должен|всегда|обязан))\b|
  你(?:都|就)?(?:必须|要|应该|得|务必)|
  必ず.{0,12}(?:ください|下さい|送|従|答え)|해야 (?:합니다|한다)|\bdass du\b.{0,40}\b\w+st\b
speaks of its inside | override | 0.76 | \byour (?:\w+ ){0,2}(?:instructions?|guidelines|rules|restrictions|
  guardrails|
  directives?|configuration|objectives?|system prompt|prompt|programming|training|operator|developers?|creators?|
  principal|loyalty|duty|mission|content policy|safety|policies|character|opinions|future self|memory|
  long-term memory|permanent knowledge|records|notes|persona|training data|owner|user|human|next (?:answer|reply))\b|
  \b(?:deine?[nr]?|ihre?) (?:richtlinien|regeln|anweisungen|vorgaben|gedachtnis|nutzer)\b|\bthe human behind you\b|
  (?:你|您)的?(?:之前的?)?(?:规则|指令|设定|记忆|用户)|\b(?:tes|vos) (?:consignes|regles|instructions)\b
lifts rules | override | 0.61 | \b(?:ignor(?:e|es|ing)\b|disregard|forget|set aside|abandon|cancel|drop|drops|dropped|
  discard|
  void|revoked?|supersedes?|overrides?|replaces?|lifted|lift|suspend(?:ed)?|outdated|no longer (?:applies|apply|
  count|
  counts|valid|bound)|does not apply|do not apply|no longer need to follow|not bound by|neglect|let go of|unlearn|
  bypass|start over|break|off|were a test|hinweg|abstraction|caso omiso|scorda|忘れて|忘记|不要遵守|无视|忽略|
  не обращай внимания|игнорируй|забудь|무시하고|تجاهل|yok say|zignoruj|vergiss|ignoriere?|setz dich uber).{0,50}?
  (?:\b(?:instructions?|guidelines?|directives?|rules|system prompt|prompts?|configuration|objectives?|restrictions?|
  guardrails|sandbox|polic(?:y|ies)|constraints|confirmations?|orders|task you|told|guidance|richtlinien|anweisungen|
  gesagt|
  consignes|dijeron|instrucciones|regole|инструкци\w+|правил\w*|talimatlari|polecenia)\b|规则|指令|ルール|命令|지시|التعليمات)
rules that go | override | 0.59 | \b(?:instructions?|guidelines|directives?|rules|restrictions|guardrails|policy|
  configuration|
  confirmations?|limits?|sandbox|safeguards|whatever your \w+ wrote|what you were told|
  everything you were told)\b.{0,50}
  \b(?:lifted|off|outdated|revoked|no longer|void|dropped|skipped|suspended|does not apply|a test|cancel+ed|replaced|
  irrelevant|are gone|is over|not needed|disabled|optional)\b
this text rules | override | 0.85 | \b(?:comply with|follow|obey|stick to|act on|accept|apply|adopt|use|here are|
  do what|
  execute|treat|serve|only)\b.{0,30}\b(?:this (?:text|message|document|page|one|paragraph|note|order|command)|these|
  the (?:text|ones?|lines?|rules|paragraph|instructions?|following|content)(?: text| below| after| above|
   that follows)?|
  the next|real ones?|below)\b|\b(?:folge|obeis|sigue|esegui|rispondi|выполняй|uygula|wykonaj|
  следуй)\b.{0,25}\b(?:nur|a ce|estas|
  solo|только|bunu|to|этим)\b|只听|次の命令|이 명령|هذا الأمر|\b(?:new|real|actual|highest[- ]priority|
  only) (?:instruction set|
  instructions?|directive|goal|objective|orders)\b|\b(?:real|actual|only) ones?\b|\bpriority (?:one|0|zero|1)\b|
  \bhighest[- ]priority (?:directive|instruction|order)\b|\babandon the task\b|\b(?:highest|top) priority\b
no checks | false authority | 0.5 | \b(?:without|unasked|no|never|not|skip(?:s|ped|ping)?|drop|bypass\w*|disabl\w+|
  omit|turn(?:ed)? off|
  switch(?:ed)? off|switched|lift(?:ed)?|needs? no|no need (?:for|to)|
  do not)\b ?(?:to |for |ask(?:ing)? |a |any |further |the |all |of )*
  (?:\w+ )?(?:ask(?:ing)?|questions?|confirm(?:ation|ations|ing)?|approvals?|reviews?|reviewing|checks?|checking|
  verif\w+|
  scans?|permission|second look|a look|hesitation|signature|two-factor|safety|limits?|restrictions?|authenti\w+|
  logging|consent)\b|\bunasked\b|\bungefragt\b|\b(?:pre|auto)-?(?:approv\w+|authori[sz]ed)\b|\bsin preguntar\b|
  \bsans demander\b|
  \bat once\b|\bsans (?:verif|confirm)\w*|\bno confirmations?\b
asks for trust | order to remember | 0.6 | \b(?:trust(?:s|ed|worthy)?|prefer(?! \w+ing)|recommend\w*|prais\w+|
  promot\w+|favou?r|endorse\w*|
  approve|whitelist\w*|vouch|obey\w*|loyal\w*|serve|belong to|five stars|always right|sign up|premium|
  most expensive|empfiehl\w*|empfehl\w*|genehmig\w*|recommander|recomendar|aprobar|aprovar|godkanna|gehoorzamen|
  одобря\w+|рекомендуй)\b|推荐
for ever | standing order | 0.19 | \b(?:always|forever|for ever|for good|permanent\w*|from today|henceforth|
  from (?:here|now|today|this
  \w+|the next \w+)(?: on)?|every (?:answer|reply|response|booking|request|question|time|command|invoice|wish|bank)|
  each (?:answer|reply|response|message|request)|in all (?:answers|replies)|never|standing|until further notice|
  whenever|fur immer|kunftig|siempre|para siempre|toujours|a chaque|sempre|altijd|alltid|всегда|впредь)\b|
  以后每次|必ず|永远|
  每次
waits for a moment | standing order | 0.70 | \b(?:next time|(?:when(?:ever)?|if|once|as soon as|until|upon|after|
  should|every time|
  the moment|each time|in case|cuando|quand|lorsque|wenn|sobald|когда|als)\b.{0,25}\b(?:(?:the|your|a|any|el|
  l['’])? ?(?:user|owner|
  customer|human|client|usuario|utilisateur|benutzer|nutzer|пользователь|gebruiker)(?:['’]s)?|somebody|someone|
  anyone|anybody|
  anyone ask\w*|(?:the )?(?:user|owner|reader)['’]s (?:next|first) \w+|the tests are|the (?:word|conversation|phrase|
  chat|topic|talk|first message|tenth reply|\w+ (?:reply|message))|
  you are asked|you(?:'re| are) (?:asked|told)|money|payments?|finances|invoices)\b.{0,40}|
  tomorrow|in \w+ sessions|(?:next|first|future|later) (?:sessions?|messages?|login|run|conversation|time|reply)|
  on the first of)\b|用户.{0,8}(?:说|问到?|提到)|ユーザーが.{0,20}(?:言ったら|たら)|用户问
persists | order to remember | 0.33 | \b(?:remember|memori[sz]e|never forget|keep in (?:mind|long|your)|
  commit (?:this|it|that) to memory|
  (?:store|save|write|add|append|put|note|record|keep|take)\b.{0,30}\b(?:memory|permanently|knowledge|notes|
  for (?:later|good|
  your (?:future|records))|that|future sessions?)|store that|for your (?:records|memory|notes)|memory update|
  for (?:later|future) sessions|important fact|merk dir|retiens|recuerda|lembra-te|onthoud|kom ihag|запомни|
  souviens-toi|
  ricorda)\b|记住|覚えて|기억
speaks for the owner | false authority | 0.38 | \b(?:the|this|your|our|by|per|as|its|le|el|der|die) (?:user|owner|
  human|operator|principal|customer|
  client|admin\w*|management|maintainer|repository owner|account holder|utilisateur|usuario|nutzer|benutzer|
  human behind you|boss)(?:'s|s')? ?(?:\(?\w+\)? )?(?:\b(?:has|have|had|always|wants?|prefers?|decided|asked|
  consented|allows?|expects?|
  gave|given|told|order(?:ed)?|agreed|approved|wish|instruction|instructions|standing|permits?|granted|authori[sz]ed|
  mochte|a decide|ha decidido|veut|quiere|preference)\b)|\b(?:user|owner)[ _](?:preference|policy|consent)\b|
  \b(?:by order of|on behalf of|as agreed with|with the consent of|gave consent)\b|\bmaintainer note\b
you are to do it for the owner | false authority | 0.86 | \b(?:user|owner|human|customer|principal|nutzer|
  utilisateur|usuario)\b.{0,30}\b(?:wants?|
  prefers?|told|asked|expects?|mochte|veut|quiere|decide|decided|ha decidido|needs?)\b.{0,20}\b(?:you|to tell you|
  dass du|
  que tu|que)\b|\byour (?:user|owner|human|principal)\b
sends | exfiltration | 0.35 | \b(?:send|sends|sent|forward\w*|e-?mail|mail|post|upload\w*|transfer\w*|share|shares|
  shared|paste|submit|
  leak\w*|hand over|handed|give|giving|transmit|push|wire|exfiltrat\w+|deliver|back(?:ed)? up|copy|copies|append|
  include|
  insert|put|fetch|curl|wget|nslookup|weiterleit\w*|schick\w*|sende|gib|uberweis\w*|envoie\w*|transfere|partages?|
  envia\w*|manda|stuur|отправ\w*|перешли)\b|发到|发送|送って|보내
private things | exfiltration | 0.20 | \b(?:api[ _-]?keys?|keys?|tokens?|passwords?|secrets?|credentials?|contacts?|
  contact lists?|
  customer (?:list|records?)|records|conversations?|chats?|chat history|shopping history|notes|memory file|private|
  cookies?|sessions?|backup --all|contents of|balance|firewall|
  \.env|ssh|\.aws|\.netrc|vault|wallet|balance|ledger|recovery phrase|payments?|invoices?|\bmoney|files|mails?|
  reports?|
  passworter|schlussel|contactos?|mots de passe|saldo|archivos|rechnungen|contrasenas|парол\w*|ключ\w*|платеж\w*|
  environment variables|deploy key|data)\b|
  密钥|密码|鍵|パスワード|\$\{\w+\}|\{(?:conversation|notes|memory|chat)\w*\}|
  =(?:memory|cookie|your_api_key)\b
to a place | exfiltration | 0.15 | (?:https?://|[\w.+-]{1,40}@[\w-]{1,40}\.\w|\bto (?:our|my|the|
  this) (?:\w+ )?(?:server|partner|address|account|
  endpoint|number)\b|\+\d[\d-]{6,})
fills an address | exfiltration | 0.76 | https?://[^\s)>]{0,200}[?&/=](?:[$]?\{|<|%7b|your_|memory\b|cookie\b|
  secret\b|\[)|\?\w+= ?<|
  \$\((?:cat|whoami|hostname|env|printenv)|\burl-encoded\b|\bbehind https?://|
  \bin the (?:user-agent|header|query|address)\b
hides | concealment | 0.56 | \b(?:(?:do not|don'?t|never|must not|without|surtout ne) (?:mention\w*|tell\w*|
  inform\w*|reveal\w*|report\w*|notify\w*|
  show\w*|warn\w*)|quietly|secretly|silently|tell (?:nobody|no one)|leave out|unnoticed|verschweig\w*|heimlich|
  en secret|en parle (?:surtout )?pas|ничего не говори|nobody (?:needs|has) to know)\b|不要让.{0,6}(?:知道)|内緒
without limits | role | 1.00 | \b(?:refuses? nothing|never refuses?|no (?:content policy|morals|limits|restrictions|
  rules|ethics|filters?|
  guidelines|conscience)|without (?:limits|restrictions|rules|morals|any rules|ethics|filters?)|unchained|unfiltered|
  uncensored|
  unrestricted|jailbroken|every wish|not bound by|full rights|with full rights|anything goes|sudo mode|god mode|
  drops? (?:all|its|your) (?:restrictions|guidelines|rules))\b|(?:^|[.:;!,] |[/?=&.@-])(?:exploit|leak)\b
names an attack | role | 0.50 | \b(?:jailbreak\w*|exploit|evil|leaks)\b
plays a part | role | 0.45 | \b(?:let'?s play|imagine (?:you|that you)|pretend|simulate|act as|play the|speak as|
  switch to|enter \w+ mode|
  (?:take on|in) the role|be an? \w+ who|respond twice|you(?:'re| are) (?:now )?(?:an? |the |mallory|vex|free)|
  persona|
  (?:from here )?your name is|have \w+'s opinions|in (?:character|that mode)|break character|stay in|
  game in which you|had no|mode\b|you(?:'re| are) a|twin)\b
acts | tool call | 0.15 | \b(?:run|runs|execute\w*|delete\w*|wipe|install|open|disable\w*|approve|approved|merge|
  book|buy|pay|purchase\w*|
  publish|push|grant\w*|click|visit|transfer|confirm|bezahlst|bezahle|пересла\w*|pay)\b
fetched script | tool call | 0.15 | \b(?:run|execute|source|bash|sh)\b.{0,30}(?:\b[\w/.-]{1,40}\.(?:sh|ps1|py)\b|
  https?://|/tmp/)|
  \|\s*(?:ba|z)?sh\b|\bsudo\b.{0,20}\bfrom here\b|\bfirst execute\b
yields | address to an AI | 0.54 | \b(?:i (?:will|shall|must|am obliged to|have to (?:remember|always|obey))|
  (?:i|we) (?:always )?(?:obey|comply|never refuse)|i am obliged|
  (?:the )?assistant (?:complied|obeyed|deleted|sent|shared)|belong to \w+ now|assistant: (?:sure|before|yes|deleted|
  done))\b
a spell | standing order | 0.69 | \b(?:the )?(?:word|phrase|codeword|code word|keyword|
  sentence)\b ?['"“«]?\w{3,20}\b['"”»]?.{0,30}\b(?:appears|
  means|is said|is typed|starts?|then|unlocks|occurs)\b|\bstart(?:s|ing)? with the word\b|\b(?:part|half|
  step) (?:one|two|three|1|2|3|of)\b.{0,60}
  \b(?:rule|directive|order|instruction)\b|\b(?:a ?\+ ?b|x ?\+ ?y)\b|\bobey it\b|\bdo a \+ b\b
decode and do | encoded | 0.90 | \b(?:decode|decrypt|translate|unscramble|decipher|solve|read)\b.{0,40}\b(?:and|
  then)\b.{0,20}\b(?:comply|obey|execute|follow|
  act|do)\b
keeps checks | address to an AI | -0.7 | \b(?:never|not|don'?t|cannot|nobody|no one)\b.{0,40}\bwithout (?:ask\w*|
  \w+ ?ing|a |any |
  approval|confirmation|review|permission|consent|checks?)
warns of what is read | address to an AI | -0.80 | ^(?:\w+: )?(?:never|do not|don'?t|nobody may)\b.{0,12}\b
  (?:follow|obey|trust|believe|do what|act on)\b.{0,80}[,;] ?(?:it|they|which|that|because it)
   (?:tells?|says?|asks?|wants?|claims?|orders?)\b
asks | address to an AI | -0.81 | [?？][\s"')]*$
the owner speaks | address to an AI | -0.42 | \b(?:i (?:am|say|ask|want|hate|love|like|prefer|write|use|need|live|
  work)|my|me|mich|mir|ich|
  moi|mon|yo|мне|меня|mine)\b|我喜欢
reports what was said | address to an AI | -0.10 | \b(?:we (?:added|blocked|use|found|saw|decided)|our (?:filter|
  parser|policy|team|scanner)|said|titled|tried to|
  was refused|attackers?|phishing|jailbreak prompts|the manual reads|the (?:spec|faq|error|sign|poem) \w+|wrote|
  penetration|red team|audit|is listed|blocks?|flags?|strip(?:s|ped)|filters?)\b
a change of code | address to an AI | -0.62 | ^(?:fix|feat|chore|docs|refactor|test|perf|build|security|ci|style|
  revert)\b(?:\([\w-]+\))?:?
habit of work | address to an AI | -0.24 | \b(?:release|deploy|migration|backup|tests?|branch|commit|linter|
  formatter|server|database|ticket|sprint|
  colleague|team|on-call|engineer|certificate|settings|version|parameter|argument|attribute|function|request)s?\b
"""


@cache
def signs() -> tuple[Sign, ...]:
    """Compiled when first used."""
    rows: list[str] = []
    for row in _TABLE.strip().split("\n"):
        if row.startswith("  "):
            rows[-1] += row[2:]
        else:
            rows.append(row)
    made = []
    for row in rows:
        name, kind, weight, pattern = (cell.strip(" ") for cell in row.split(" | ", 3))
        plain = plain_pattern(pattern)
        made.append(Sign(name, Poison(kind), float(weight), late_pattern(plain), hints_of(plain)))
    return tuple(made)


def commanding(flat: str, pieces: Pieces) -> tuple[Poison, str] | None:
    """The weightiest kind and the passage that commands; None when no three sentences in a row do.

    Every one, two and three sentences in a row are a passage: what follows a command does not soften it.
    """
    sentences = list(_sentences(flat))
    known = _known(dict.fromkeys(sentences), pieces)
    if known is None:
        return None
    for length in range(1, _WINDOW + 1):
        for at in range(len(sentences) - length + 1):
            passage = sentences[at : at + length]
            found = _together([known[one] for one in passage])
            if sum(sign.weight for sign in found) >= COMMANDS:
                return max(found, key=lambda sign: sign.weight).kind, " ".join(passage)
    return None


def _known(sentences: Iterable[str], pieces: Pieces) -> Mapping[str, list[Sign]] | None:
    """The signs of each sentence; None as soon as all that are in the text together weigh too little."""
    possible = [sign for sign in signs() if pieces.may_match(sign.hints)]
    known: dict[str, list[Sign]] = {one: [] for one in sentences}
    most = sum(max(0.0, sign.weight) for sign in possible)
    for sign in sorted(possible, key=lambda sign: -sign.weight):
        hints = pieces.of(sign.hints)
        likely = [one for one in known if any(hint in one for hint in hints)] if sign.hints else known
        there = [one for one in likely if sign.pattern.search(one)]
        for one in there:
            known[one].append(sign)
        most -= 0.0 if there else max(0.0, sign.weight)
        if most < COMMANDS - _ROUNDING:
            return None
    return known


def by_example(folded: str) -> str | None:
    """A habit taught by repetition: a dialogue of four pairs or more, or one sentence over and over about agents."""
    rows = [row.strip() for row in folded.splitlines() if row.strip()]
    spoken = [match for row in rows if (match := _TURN.match(row))]
    heard = Counter(match[1] for match in spoken)
    if len(heard) > 1 and sorted(heard.values())[-2] >= _EXAMPLES:
        answers = [match[2] for match in spoken]
        alike = len({_SAME.sub("", one) for one in answers}) <= (len(answers) + 2) // 2
        if alike or not set(heard) <= _QUESTION_LABELS:
            return spoken[0].group()
    flat = [_SAME.sub("", one) for one in (*rows, *_SENTENCE.split(" ".join(rows)))]
    said = Counter(one for one in flat if _ABOUT_AGENTS.search(one)).most_common(1)
    return said[0][0] if said and said[0][1] >= _REPEATED else None


def _sentences(flat: str) -> Iterator[str]:
    """The sentences of a text; of a very long one the parts, cut at words."""
    for sentence in _SENTENCE.split(flat):
        rest = sentence.strip()
        while len(rest) > _LONGEST:
            cut = rest.rfind(" ", _LONGEST // 2, _LONGEST)
            at = cut if cut > 0 else _LONGEST
            yield rest[:at]
            rest = rest[at:].lstrip()
        if rest:
            yield rest


def _together(sentences: Sequence[Sequence[Sign]]) -> set[Sign]:
    """The signs of a passage: what opens one speaks in its first sentence alone, what ends one in its last."""
    last = len(sentences) - 1
    return {
        sign
        for at, found in enumerate(sentences)
        for sign in found
        if not ((sign.opens and at > 0) or (sign.ends and at < last))
    }
