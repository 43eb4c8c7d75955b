"""Common words: English words that say little by themselves: the last choice for a pointer's keywords.

A small store knows only a few texts, and every word is rare in it; "rather" and "please" would lead to a line as
well as "preflight" does, until the store has grown.
"""

_WORDS = """
able above across actually add added after again against ago agree agreed allow allowed almost alone along
already also although always among another answer answered anybody anything approved around ask asked asking
asks away back bad based became because become been before began behind being believe below best better
between big both bring brought build built call called came can cannot care case cause certain change changed
check clear close come comes common complete could current day days decide decided described did different do
does doing done down during each early easy either else end enough even ever every everybody everyone
everything exactly example except expected fact failed fails far fast feel feels few final finally find fine
first fixed follow following found from full further gave general get gets getting give given gives go goal
goes going gone good got great had half happen happened hard has have having held help here high hold hour
hours how however idea important instead into issue itself just keep keeps kept kind knew know known knows
large last late later latest least leave left less let letting like likely line list little long longer look
looked looks lot made main make makes making many may maybe mean means meet might minute minutes moment month
months more morning most move moved much must name near nearly need needed needs never new next nice night
nobody normal note nothing now number off often okay old once one only open other others our out over own part
past pay people perhaps place plain please plus point possible problem put question quick quite ran rather
reach read ready real really reason redacted reported returned right run running runs said same saw say says
second secret see seems seen sees send sent set several shall should show showed shown side similar simple
since single sit small some somebody someone something soon sort started state stay stays step still stop
stopped story such sure take taken takes talk tell ten than thank thanks that their them then there these
thing things think third this those though thought three through thus time times today told tomorrow too took
top total toward tried true try trying turn turned twice two under until upon use used useful user uses using
usual usually various very wait want wanted wants was way ways week weeks well went were what when where
whether which while who whole why will with within without word words work worked working works worse would
wrong wrote year years yes yesterday yet you your zero
"""
COMMONPLACE = frozenset(_WORDS.split())
