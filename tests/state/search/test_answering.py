import pytest

from state.search.answering import answers


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is known about: deploy keys?", "The deploy keys are in the vault under ops"),
        ("where are the deploy keys?", "The deploy keys are in the vault under ops"),
        ("Why does the cache miss on Mondays?", "The cache misses on Mondays because the cron purges it"),
        ("Which team owns billing?", "Asked around. The payments team owns billing."),
        ("Is the API public?", "The API is not public"),
        ("It is not clear whether the API is public", "The API is public"),
        ("Hosting region: TBD", "The hosting region is eu-west-1"),
        ("How do tokens expire?", "Tokens expire after 24 hours"),
        ("Who owns billing?", "Anna owns billing"),
        ("I wonder why the parser is slow", "The parser is slow because it backtracks"),
        ("What is the staging port?", "The staging port is 9090"),
        ("How many backups are kept?", "We have 7 backups kept at any time"),
        ("When do the backups run?", "The backups run every Monday"),
    ],
)
def test_what_is_asked_for_is_an_answer(question: str, text: str) -> None:
    assert answers(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is known about: deploy keys?", "Where are the deploy keys?"),
        ("What is known about: deploy keys?", "deploy keys"),
        ("What is known about: deploy keys?", "We should rotate the deploy keys this week"),
        ("where are the deploy keys?", "where are the deploy keys"),
        ("where are the deploy keys?", "The deploy keys are rotated on Mondays"),
        ("Why does the cache miss on Mondays?", "The cache misses on Mondays again, annoying"),
        ("Why does the cache miss on Mondays?", "The cache misses because the cron purges it"),
        ("Which team owns billing?", "Someone asked which team owns billing"),
        ("Which team owns billing?", "Which team owns billing is unclear"),
        ("Which team owns billing?", "Billing is broken. The payments team is on holiday."),
        ("Is the API public?", "Is the API public?"),
        ("Is the API public?", "Maybe the API is public"),
        ("Hosting region: TBD", "Hosting region: TBD"),
        ("What does the nightly job do?", "The nightly job is broken"),
        ("Who owns billing?", "Somebody must own billing"),
        ("How many backups are kept?", "Old backups are kept"),
        ("为什么部署这么慢？", "部署这么慢，大家都很烦。"),
        ("Why?", "Because."),
        ("", "anything"),
    ],
)
def test_questions_doubts_and_other_matters_are_none(question: str, text: str) -> None:
    assert not answers(question, text)


# By language: why, when, where, a value, yes or no; each with its answer, and with what is none.
ASKED = {
    "en": [
        ("Why is the parser slow?", "The parser is slow because it backtracks.", "The parser is slow again."),
        ("When does the backup run?", "The backup runs every Monday.", "The backup runs and runs."),
        ("Where are the deploy keys?", "The deploy keys are in the vault.", "The deploy keys were rotated."),
        ("How many backups are kept?", "Seven was too few: 9 backups are kept.", "The old backups are kept."),
        ("Is the API public?", "The API is not public.", "Maybe the API is public."),
    ],
    "de": [
        (
            "Warum ist der Parser langsam?",
            "Der Parser ist langsam, weil er zurückspringt.",
            "Der Parser ist wieder langsam.",
        ),
        ("Wann läuft das Backup?", "Das Backup läuft am Montag.", "Das Backup läuft und läuft."),
        ("Wo liegen die Schlüssel?", "Die Schlüssel liegen im Tresor.", "Die Schlüssel liegen."),
        ("Wie viele Kopien gibt es?", "Es gibt 9 Kopien.", "Es gibt genug Kopien."),
        (
            "Ist die Schnittstelle öffentlich?",
            "Die Schnittstelle ist nicht öffentlich.",
            "Vielleicht ist die Schnittstelle öffentlich.",
        ),
    ],
    "fr": [
        ("Pourquoi le parseur est lent ?", "Le parseur est lent parce qu'il recule.", "Le parseur est encore lent."),
        ("Quand tourne la sauvegarde ?", "La sauvegarde tourne chaque lundi.", "La sauvegarde tourne bien."),
        ("Où sont les clés ?", "Les clés sont dans le coffre.", "Les clés sont neuves."),
        ("Combien de copies existent ?", "Il y a 9 copies qui existent.", "Des copies existent."),
        (
            "Est-ce que l'interface est publique ?",
            "L'interface n'est pas publique.",
            "Peut-être que l'interface est publique.",
        ),
    ],
    "es": [
        (
            "¿Por qué es lento el analizador?",
            "El analizador es lento porque retrocede.",
            "El analizador es lento otra vez.",
        ),
        ("¿Cuándo corre la copia?", "La copia corre cada lunes.", "La copia corre bien."),
        ("¿Dónde están las llaves?", "Las llaves están en la caja.", "Las llaves están rotas."),
        ("¿Cuántas copias hay?", "Hay 9 copias.", "Hay copias viejas."),
        ("¿Está abierta la puerta?", "La puerta no está abierta.", "Quizás la puerta está abierta."),
    ],
    "pt": [
        ("Por que o analisador é lento?", "O analisador é lento porque recua.", "O analisador é lento de novo."),
        ("Quando roda o backup?", "O backup roda no domingo.", "O backup roda bem."),
        ("Onde estão as chaves?", "As chaves estão no cofre.", "As chaves estão quebradas."),
        ("Quantas cópias existem?", "Existem 9 cópias.", "Existem cópias velhas."),
        ("A porta está aberta?", "A porta está aberta ali.", "Talvez a porta está aberta."),
    ],
    "it": [
        ("Perché il parser è lento?", "Il parser è lento perché torna indietro.", "Il parser è ancora lento."),
        ("Quando gira il backup?", "Il backup gira ogni venerdì.", "Il backup gira bene."),
        ("Dove sono le chiavi?", "Le chiavi sono nella cassaforte.", "Le chiavi sono rotte."),
        ("Quante copie esistono?", "Esistono 9 copie.", "Esistono vecchie copie."),
        ("È aperta la porta?", "La porta non è aperta.", "Forse la porta è aperta."),
    ],
    "ru": [
        ("Почему парсер тормозит?", "Парсер тормозит, потому что возвращается назад.", "Парсер опять тормозит."),
        ("Когда идёт бэкап?", "Бэкап идёт в пятницу.", "Бэкап идёт хорошо."),
        ("Где лежат ключи?", "Ключи лежат в сейфе.", "Ключи лежат спокойно."),
        ("Сколько копий хранится?", "Хранится 9 копий.", "Хранится много копий."),
        ("Открыт ли интерфейс?", "Интерфейс не открыт.", "Возможно, интерфейс открыт."),
    ],
    "zh": [
        ("为什么部署这么慢？", "因为缓存坏了，部署这么慢。", "部署这么慢，真烦。"),
        ("什么时候备份数据库？", "每个星期五备份数据库。", "正确备份数据库。"),
        ("部署密钥在哪里？", "部署密钥在保险箱里。", "部署密钥换了。"),
        ("数据库保留多少备份？", "数据库保留9个备份。", "数据库保留旧备份。"),
        ("接口是公开的吗？", "接口是公开的。", "接口可能是公开的。"),
    ],
    "ja": [
        ("なぜデプロイが遅いですか？", "キャッシュが壊れたからデプロイが遅いです。", "デプロイが遅いです、また。"),
        (
            "バックアップはいつ実行されますか？",
            "バックアップは明日実行されます。",
            "バックアップは正しく実行されます。",
        ),
        ("デプロイキーはどこにありますか？", "デプロイキーは金庫にあります。", "デプロイキーは変更しました。"),
        ("バックアップは何個残りますか？", "バックアップは9個残ります。", "バックアップは多く残ります。"),
        ("インターフェースは公開ですか？", "インターフェースは公開です。", "インターフェースは公開かもしれない。"),
    ],
}


@pytest.mark.parametrize(("question", "answer", "none"), [case for cases in ASKED.values() for case in cases])
def test_questions_are_settled_in_nine_languages(question: str, answer: str, none: str) -> None:
    assert answers(question, answer)
    assert not answers(question, none)
