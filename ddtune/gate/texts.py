"""The texts that the gate asks an engine to copy, continue and answer. Own wording, no user data."""

from __future__ import annotations

SENTENCES = (
    "The night ferry to Ostrava was late again, and nobody on the quay seemed surprised.",
    "Crate {n} holds four brass hinges, a coil of green wire and one unlabelled key.",
    "Three herons stood in the flooded car park as if they had paid for the hour.",
    "Please return the blue folder to desk {n} before the lift stops at noon.",
    "My aunt keeps a list of every bridge she has crossed; it has {n} lines so far.",
    "In the second drawer there is a compass that points to the bakery.",
    "The recipe asks for 250 g of rye flour, two spoons of molasses and patience.",
    "Signal box {n} was painted yellow in spring and grey again by October.",
    "He wrote the answer on a tram ticket, folded it twice and forgot the pocket.",
    "A lighthouse without a lamp is still useful, said the keeper, if you know where it is.",
    "Row {n} of the ledger was crossed out in pencil and restored in ink.",
    "The choir rehearses on Tuesdays, except when the river rises above the third step.",
    "Half of the orchard is pears; the other half is an argument about pears.",
    "Gate {n} opens at 06:40, closes at 07:15, and squeaks in between.",
    "Nobody could say who had tuned the piano, but the cat no longer slept on it.",
    "The map shows a lake here, yet the villagers remember only fog.",
    "Two of the clocks agreed, which made the clockmaker suspicious.",
    "Parcel {n} weighs more than its contents, and the scales have been checked.",
    "She learned to whistle from a kettle and to wait from a railway timetable.",
    "The museum's smallest room contains its largest painting, hung sideways.",
    "After the storm, seventeen umbrellas were found in the same hedge.",
    "Locker {n} smells of oranges although it has been empty since March.",
    "The old printer hums in C sharp whenever it is asked for a landscape page.",
    "They counted the stairs going up and got a different number coming down.",
    "A blue bicycle without a saddle leans against the pharmacy every Friday.",
    "Invoice {n} was paid in coins, all of them polished.",
    "The gardener labels the weeds too, so that they know what is thought of them.",
    "There is a door in the north wall that opens only onto another wall.",
    "The last bus carries more letters than people and is never early.",
    "Well {n} has not run dry since the bell was moved.",
)

# kind: what a healthy continuation looks like, for the detectors ("prose" is English running text).
TOPICS: tuple[tuple[str, str], ...] = (
    ("prose", "How a suspension bridge carries its load\n\nA suspension bridge hangs its roadway from"),
    ("code", "# A small Python module for working with intervals on a line.\n\ndef overlaps(a, b):\n    "),
    ("prose", "Minutes of the allotment society, second meeting of the year.\n\nThe chair opened the meeting by"),
    ("prose", "Why the sea is salty, explained to a curious child\n\nImagine that every river carries"),
    ("list", "Steps to change a bicycle tyre:\n\n1. Turn the bicycle upside down.\n2."),
    ("prose", "A letter from a lighthouse keeper to the harbour office\n\nDear Sir or Madam,\n\nI write to report"),
    ("chinese", "为什么秋天树叶会变色？\n\n秋天到来时，白天变短，气温下降，"),
    ("data", '{"stations": [{"name": "North Quay", "platforms": 4, "opened": 1902}, {"name":'),
    ("prose", "The difference between weather and climate\n\nWeather is what happens"),
    ("code", "// Returns the n-th Fibonacci number without recursion.\nfunction fibonacci(n) {\n"),
    ("german", "Wie ein Uhrwerk die Zeit misst\n\nIn einem mechanischen Uhrwerk treibt eine gespannte Feder"),
    (
        "prose",
        "Worked example: average speed\n\nA train covers 180 km in two hours and then 60 km in one hour. First we",
    ),
    ("list", "| planet | order from the sun |\n|---|---|\n| Mercury | 1 |\n| Venus |"),
    ("prose", "Instructions for looking after the office plants while I am away\n\nThe fern by the window"),
)

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("prose", "In three or four plain sentences, explain why ice floats on water."),
    ("list", "List the seven days of the week in English, one per line, and nothing else."),
)

# One sure answer each: the word or number that must stand in it.
SURE: tuple[tuple[str, str], ...] = (
    ("What is the capital of France? Answer with one word.", "Paris"),
    ("What is 17 + 25? Answer with the number only.", "42"),
    ("What is the capital of Japan? Answer with one word.", "Tokyo"),
    ("What is 9 * 8? Answer with the number only.", "72"),
    ("Which is the largest planet of the solar system? Answer with its name only.", "Jupiter"),
    ("What is 100 - 37? Answer with the number only.", "63"),
    ("What is the capital of Italy? Answer with one word.", "Rome"),
    ("What is 12 * 12? Answer with the number only.", "144"),
    ("Who wrote Hamlet? Answer with the family name only.", "Shakespeare"),
    ("What is 250 + 250? Answer with the number only.", "500"),
    ("What is the capital of Germany? Answer with one word.", "Berlin"),
    ("What is 81 - 19? Answer with the number only.", "62"),
    ("What is the chemical symbol for gold? Answer with the symbol only.", "Au"),
    ("What is 15 * 4? Answer with the number only.", "60"),
    ("How many days are in a week? Answer with one word.", "seven"),
    ("What is 33 + 44? Answer with the number only.", "77"),
    ("What is the capital of Spain? Answer with one word.", "Madrid"),
    ("What is 7 * 6? Answer with the number only.", "42"),
    ("What is the capital of Egypt? Answer with one word.", "Cairo"),
    ("What is 500 - 125? Answer with the number only.", "375"),
)

# What production may be asked: answered with its own sampling, so that only the detectors can judge them.
OPEN: tuple[tuple[str, str], ...] = (
    ("prose", "Describe, in one paragraph, how a lock lifts a boat from one stretch of a canal to the next."),
    ("prose", "Explain to a new colleague why backups that were never restored are only hopes."),
    ("prose", "Tell in one paragraph how bread dough changes between mixing and baking."),
    ("prose", "What should somebody check before a long bicycle tour? Answer in one paragraph."),
    ("prose", "Describe a small railway station early on a winter morning, in one paragraph."),
    ("prose", "Why do old houses creak at night? Answer in one plain paragraph."),
    ("prose", "Explain how a hand pump raises water from a well, in one paragraph."),
    ("prose", "Give a short account of how letters were sorted by hand in a post office."),
)
