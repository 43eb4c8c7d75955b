"""Calibration: brings the cosines of every model to one scale, for which the search has its weights.

In one model all texts may look alike, in another answers may stand out less. Both are measured once per model, from
one list of questions with answers: the mean vectors, which are subtracted from the model's vectors, and the line that
maps the remaining cosines, of right and of wrong answers, to the scale. The line applies to a question and a text;
two texts, or two parts of a question, are compared by the centred vectors alone.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

# Raised with every change of the measurement, so that vectors centred in another way are computed anew.
VERSION = 2
# The scale: mean cosines of a question with its answer and with other answers. They are measured in English, because
# not every model knows other languages; the numbers are those of all-MiniLM-L6-v2, uncentred.
NEAR, FAR = 0.454, 0.063
ENGLISH = (
    ("Where is the spare key?", "The spare key hangs behind the cellar door."),
    ("When does the team meet?", "We sit together every Tuesday at ten."),
    ("What does he drink in the morning?", "He likes tea with milk for breakfast."),
    ("Why was the server slow last night?", "A backup ran for six hours and filled the disk."),
    ("Which database did we choose?", "We decided on PostgreSQL because of its backups."),
    ("Who is the new neighbour?", "A carpenter from Hull moved in next door."),
    ("How much does the gym cost?", "The membership is forty euros a month."),
    ("What is she allergic to?", "She gets a rash from peanuts."),
    ("Which colour should the kitchen have?", "They want the walls of the kitchen in pale green."),
    ("How do I start the tests?", "Run make check before each commit."),
    ("Where did they spend the summer?", "They were at a lake in Finland in July."),
    ("What broke in the last release?", "After the update nobody could log in."),
    ("Is the car repaired?", "The garage has changed the brakes, it drives again."),
    ("What instrument does the boy learn?", "He has had cello lessons for two years."),
    ("Who pays the invoices?", "Accounting transfers the money at the end of the month."),
    ("What would she like for her birthday?", "She has been wishing for a telescope."),
)
PAIRS = (
    *ENGLISH,
    ("Wo liegt der Ersatzschlüssel?", "Der Ersatzschlüssel hängt hinter der Kellertür."),
    ("Was trinkt er morgens?", "Zum Frühstück mag er Tee mit Milch."),
    ("Quand l'équipe se réunit-elle ?", "Nous nous retrouvons chaque mardi à dix heures."),
    ("À quoi est-elle allergique ?", "Les cacahuètes lui donnent des boutons."),
    ("¿Quién es el nuevo vecino?", "Un carpintero de Vigo se mudó a la casa de al lado."),
    ("¿Cuánto cuesta el gimnasio?", "La cuota es de cuarenta euros al mes."),
    ("Que banco de dados escolhemos?", "Decidimos pelo PostgreSQL por causa das cópias de segurança."),
    ("O carro está consertado?", "A oficina trocou os freios, ele anda de novo."),
    ("Che strumento studia il ragazzo?", "Prende lezioni di violoncello da due anni."),
    ("Chi paga le fatture?", "La contabilità versa il denaro a fine mese."),
    ("Где они провели лето?", "В июле они были на озере в Финляндии."),
    ("Почему ночью сервер работал медленно?", "Резервное копирование шло шесть часов и заполнило диск."),
    ("厨房要刷什么颜色？", "他们想把厨房的墙刷成浅绿色。"),
    ("她生日想要什么？", "她一直想要一台望远镜。"),
    ("テストはどう始めますか。", "コミットの前に毎回 make check を実行します。"),
    ("前のリリースで何が壊れましたか。", "更新のあと誰もログインできなかった。"),
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The mean vectors (2, width) of texts and of questions; slope and shift of the line for question-text cosines.

    Without means, it only normalises the length of vectors.
    """

    means: "NDArray[np.float32] | None" = None
    scale: tuple[float, float] = (1.0, 0.0)

    def centred(self, vectors: "NDArray[np.float32]", *, questions: bool) -> "NDArray[np.float32]":
        """Return the vectors (n, width) without their mean, L2-normalised."""
        import numpy as np

        moved = vectors if self.means is None else vectors - self.means[int(questions)]
        return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), dtype=np.float32)

    @classmethod
    def read(cls, measured: bytes) -> "Calibration":
        """Decode the result of `measure`."""
        import numpy as np

        numbers = np.frombuffer(measured, dtype="<f4")
        return cls(numbers[:-2].reshape(2, -1), tuple(numbers[-2:].tolist()))


def measure(pooled: "Callable[..., NDArray[np.float32]]") -> bytes:
    """Return the calibration of the model whose `OnnxModel.pooled` this is, as float32: both means, slope, shift.

    Raise ValueError if the model places answers no nearer to their own questions than to others.
    """
    import numpy as np

    asked, told = zip(*PAIRS, strict=True)
    texts, questions = pooled(told, questions=False), pooled(asked, questions=True)
    means, count = np.stack([texts.mean(axis=0), questions.mean(axis=0)]), len(ENGLISH)
    centred = Calibration(means).centred
    cosines = centred(questions[:count], questions=True) @ centred(texts[:count], questions=False).T
    near = float(cosines.trace()) / count
    far = (float(cosines.sum()) / count - near) / (count - 1)
    if near <= far:
        raise ValueError("its vectors of answers are no nearer to their questions than to others")
    slope = (NEAR - FAR) / (near - far)
    return np.append(means, [slope, FAR - slope * far]).astype("<f4").tobytes()
