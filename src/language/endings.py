"""How things end without a new value, in three languages: expressions for the relation table.

They are read in lower case, with "е" for "ё".
"""

from __future__ import annotations

PARTED = (
    r"\bразвел(?:ся|ась|ись)\b|\bразвод(?:е|имся|ится|ятся)\b|\bразвод\b|\bрасста(?:л|емся|юсь)\w*"
    r"|\bразошлись\b|\bразъехались\b|\bразбежались\b|\bбольше не (?:вместе|женат\w*|замужем)"
    r"|\bразругались\b|\bне дружим\b|\bне общаемся\b|\bdivorc\w+|\b(?:broke|broken|split) up\b"
    r"|\bseparated\b|\b(?:not|no longer|aren't) (?:together|married|friends)\b"
    r"|\bleft (?:me|him|her)\b"
    r"|\bрозлучи\w+|\bрозійшл\w+|\bрозста(?:л|єм|ємо)\w*|\bбільше не (?:разом|одружен\w+|заміжня)"
)
LEFT_WORK = (
    r"\bувол(?:ил|ьня|ен)\w*"
    r"|\bуш(?:ел|ла|ли) (?:с|из|со) (?:\w+ )?(?:работы|компании|фирмы|должности)"
    r"|\b(?:бросил|потерял|оставил)а? (?:\w+ )?работу|\bсократили\b|\bна пенси[июя]\b"
    r"|\bбезработн\w+|\bбольше (?:\w+ )?не работа\w+"
    r"|\b(?:quit|left|lost) (?:my|his|her|the|that) (?:\w+ )?(?:job|work)"
    r"|\bi(?:'ve)? (?:just )?quit(?: (?:last|yesterday|today)\b|[.,!]|$)|\bresigned\b"
    r"|\bretired\b|\bunemployed\b"
    r"|\b(?:was|got|been) (?:fired|laid off|sacked)|\bno longer work\w*"
    r"|\bwork\w* there (?:any|no) ?more"
    r"|\bзвільни\w+|\bпіш(?:ов|ла|ли) з (?:\w+ )?(?:роботи|компанії|фірми)"
    r"|\b(?:кинув|втратив|залишив)(?:ла)?"
    r" роботу|\b(?:кинула|втратила|залишила) роботу|\bскоротили\b|\bна пенсі[їю]\b|\bбезробітн\w+"
)
LEFT_SCHOOL = (
    r"\b(?:о|за)кончил\w* (?:\w+ )?(?:универ\w*|вуз|институт|школу|учебу|колледж|академию)"
    r"|\bотчислил\w*|\bбросил\w* (?:\w+ )?(?:универ\w*|вуз|институт|школу|учебу|колледж)"
    r"|\bgraduated\b|\bdropped out\b|\b(?:finished|left) (?:school|university|college)"
    r"|\b(?:за)?кінчи\w+ (?:\w+ )?(?:універ\w*|виш|інститут|школу|навчання|коледж)|\bвідрахували\b"
    r"|\bкинул?[ав]\w* (?:універ\w*|виш|інститут|школу|навчання|коледж)"
)
PARTED_WITH = (
    r"\bпродал\w*|\bпродан\w*|\bотдал\w*|\bпотерял\w*|\bвыбросил\w*|\bразбил\w*|\bукрали\b"
    r"|\bугнали\b|\bпропал\w*|\bсбежал\w*|\bsold\b|\bgave (?:\w+ )?(?:\w+ )?away\b|\blost\b"
    r"|\bthrew (?:\w+ )?away\b"
    r"|\bstolen?\b|\bcrashed\b|\btotall?ed\b|\bran away\b|\bпрода(?:в|ла|ли|но)\b|\bвідда(?:в|ла|"
    r"ли)\b|\bзагуби\w+|\bвтратил?\w*|\bвикину\w+|\bрозби(?:в|ла|ли)\b|\bвкрали\b|\bвтік(?:ла)?\b"
)
DIED = (
    r"\bумер(?:ла|ли|ло)?\b|\bпогиб(?:ла|ли)?\b|\bскончал(?:ся|ась)\b|\bне стало\b|\bумирает\b"
    r"|\bусыпили\b|\bdied\b|\bpassed away\b|\bis dead\b|\bput (?:\w+ )?to sleep\b"
    r"|\bпомер(?:ла|ли)?\b|\bзагину(?:в|ла|ли)\b|\bприспали\b"
)
MOVED_OUT = (
    r"\b(?:съехал|уехал|переехал|выехал)\w* из\b|\bmoved (?:out of|away from|from)\b|\bleft\b"
    r"|\b(?:виїха|переїха|поїха)(?:в|ла|ли) (?:з|із|зі)\b|\bбольше не живу?\w*"
    r"|\bбільше не живу?\w*"
)
HEALED = (
    r"\bпрошл[аои]\b|\bпрошел\b|\bвылечил\w*|\bвыздоров\w+|\bпоправил(?:ся|ась)\b|\bперерос\w*"
    r"|\brecovered\b|\bcured\b|\bhealed\b|\boutgr[eo]wn?\b|\bis gone\b|\bминул[аои]\b|\bодужа\w+"
    r"|\bвилікува\w+"
)
CANCELLED = (
    r"\bотмен(?:ил|ен)\w*|\bпередумал\w*|\bсорвал(?:ся|ась|ось|ись)\b|\bcancel\w+"
    r"|\bcalled (?:it )?off\b|\bchanged my mind\b|\bскасу\w+|\bскасован\w*|\bпередума(?:в|ла|ли)\b"
)
GIVEN_UP = (
    r"\b(?:за)?бросил\w*|\bперестал\w*|\bзавязал\w*|\bgave up\b|\bgiven up\b|\bquit\b|\bstopped\b"
    r"|\bкину(?:в|ла|ли)\b|\bпереста(?:в|ла|ли)\b|\bзакину(?:в|ла|ли)\b"
)
FINISHED = r"\b(?:о|за)кончил\w*|\bзакінчи(?:в|ла|ли)\b|\bfinished\b|\bgraduated\b"
# Who has one at a time needs not say which.
OF_THE_ONLY_ONE = (PARTED, LEFT_WORK, LEFT_SCHOOL)
