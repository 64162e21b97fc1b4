"""Plausible running text in English, German and Chinese: sentence patterns and the words that fill them."""

from __future__ import annotations

import random

ENGLISH = (
    "The {adj} {noun} {verb} the {noun2} {place}, and {clause}.",
    "{when}, {person} {verb} {number} {plural} {place}.",
    "Most {plural} {place} are {adj}, which is why {clause}.",
    "It helps to think of the {noun} as a {adj} {noun2} that {verb} slowly.",
    "{person} once said that {clause}, although nobody {place} agreed.",
    "If the {noun} becomes too {adj}, the {noun2} no longer fits and {clause}.",
    "There are {number} reasons for this, and the first concerns the {noun}.",
    "Because {clause}, the {noun2} has to be checked {when_low}.",
    "What matters here is less the {noun} than the {adj} {noun2} behind it.",
    "{when}, the {plural} were moved {place} so that {clause}.",
    "A {adj} {noun} costs about {number} coins and lasts for years.",
    "Between the {noun} and the {noun2} lies a {adj} space that {person} measured twice.",
    "In practice, {person} starts with the {noun} and leaves the {plural} for later.",
    "Some people prefer a {adj} {noun2}; others insist that {clause}.",
    "By the end, {number} {plural} had been repaired and {clause}.",
    "The report mentions a {adj} {noun}, a missing {noun2} and {number} other {plural}.",
)
GERMAN = (
    "Das {noun} {verb} {place}, und {clause}.",
    "{when} {verb} {person} das {adj} {noun} {place}.",
    "Weil {clause}, bleibt das {noun} {place} oft unbemerkt.",
    "Die meisten Leute denken dabei zuerst an das {adj} {noun}.",
    "Es gibt {number} Gründe dafür, und der erste betrifft das {noun}.",
    "Wenn das {noun} zu {adj_end} wird, muss {person} es {place} neu einstellen.",
    "{person} hat {when_low} bemerkt, dass {clause}.",
    "Zwischen dem {noun} und dem {noun2} liegt ein schmaler Spalt.",
    "Am Ende waren {number} Teile geprüft, und {clause}.",
    "So {verb} ein {adj} Teil das nächste, bis {clause}.",
)
CHINESE = (
    "{when},{noun}会慢慢变得{adj},因此{clause}。",
    "{person}认为{noun}比{noun2}更加{adj}。",
    "因为{clause},所以{place}的{noun}需要更多时间。",
    "在{place},人们常常看到{adj}的{noun}。",
    "一般来说,{noun}里有{number}种不同的{noun2}。",
    "如果{noun}不够{adj},{noun2}就会停止生长。",
    "{when},{place}的{noun2}也会随着改变。",
    "科学家观察了{number}年,发现{clause}。",
    "这个过程虽然缓慢,但是{clause}。",
    "所以我们说,{noun}和{noun2}是分不开的。",
)
_ENGLISH_WORDS = {
    "adj": "narrow quiet sturdy wooden early modest painted foreign patient crooked useful bright heavy plain distant",
    "noun": "bridge cable harbour clock river meadow ledger engine kettle window staircase orchard lantern signal roof",
    "noun2": "anchor tower valley spring bench corridor market wheel garden letter compass fence platform chimney map",
    "verb": "carries follows supports surrounds crosses changes protects reaches outlasts explains balances divides",
    "plural": "stones ropes travellers letters barrels windows neighbours seeds lanterns pages bricks visitors tools",
    "number": "two three four five six seven nine eleven twelve fourteen twenty thirty",
}
_ENGLISH_PHRASES = {
    "place": ("near the old mill", "beside the canal", "in the upper town", "under the north arch", "at the far quay",
              "behind the station", "along the western wall", "in the valley", "on the second floor", "by the gate"),
    "when": ("In the early morning", "After the first winter", "Towards the end of the season", "Some years later",
             "During the long repair", "On most days", "Before the rain", "At the next meeting", "Every second spring"),
    "person": ("the keeper", "an engineer from the coast", "the younger sister", "a visiting teacher", "the clerk",
               "her neighbour", "the treasurer", "a retired sailor", "the apprentice", "the night watchman"),
    "clause": ("the load spreads evenly", "nothing was lost", "the water finds another way", "the old plan still works",
               "both sides can rest", "the wind does the remaining work", "each part keeps its shape",
               "nobody had to wait", "the colours fade more slowly", "the sum comes out right",
               "the path stays dry", "the light reaches the last row"),
}  # fmt: skip
_GERMAN_WORDS = {
    "noun": "Rad Gewicht Pendel Gehäuse Werk Blatt Seil Fenster Gestell Lager Glas",
    "noun2": "Gehäuse Zifferblatt Zahnrad Hebel Rahmen Deckel",
    "verb": "bewegt trägt hält dreht berührt bremst führt",
    "adj": "kleine schwere alte glatte feine runde starke",
    "adj_end": "schwer langsam locker trocken warm",
    "number": "zwei drei vier fünf sechs sieben neun zwölf",
}
_GERMAN_PHRASES = {
    "place": ("im Inneren", "an der Achse", "auf der Rückseite", "unter dem Deckel", "am oberen Rand", "in der Mitte"),
    "when": ("Jeden Morgen", "Nach einigen Stunden", "Später", "Manchmal", "Bei jeder Umdrehung", "Im Winter"),
    "person": ("der Uhrmacher", "ein Lehrling", "die Meisterin", "der Besitzer", "ein Besucher"),
    "clause": ("die Kraft verteilt sich gleichmäßig", "der Zeiger rückt ein Stück weiter", "nichts geht verloren",
               "das Ticken wird leiser", "die Feder entspannt sich langsam", "alles beginnt von vorn"),
}  # fmt: skip
_CHINESE_PHRASES = {
    "noun": ("树叶", "阳光", "河水", "空气", "花园", "山坡", "土壤", "果实", "天空"),
    "noun2": ("颜色", "水分", "温度", "养料", "根系", "种子", "雨水", "气味"),
    "adj": ("干燥", "明亮", "温暖", "安静", "柔软", "鲜红", "稀少", "清楚"),
    "person": ("老师", "农民", "园丁", "研究人员", "孩子们", "邻居"),
    "place": ("北方", "山里", "公园", "河边", "村子", "学校"),
    "when": ("每年十月", "天气转凉以后", "到了早晨", "几个星期之后", "下雨之前", "在晴朗的日子"),
    "number": ("两", "三", "五", "七", "十"),
    "clause": ("叶绿素逐渐减少", "白天的时间越来越短", "树木开始保存水分", "其他色素显现出来", "养分回到树干",
               "风把叶子带到远处", "人们可以慢慢欣赏"),
}  # fmt: skip
_TABLES = {
    "english": (ENGLISH, {k: tuple(v.split()) for k, v in _ENGLISH_WORDS.items()} | _ENGLISH_PHRASES),
    "german": (GERMAN, {k: tuple(v.split()) for k, v in _GERMAN_WORDS.items()} | _GERMAN_PHRASES),
    "chinese": (CHINESE, _CHINESE_PHRASES),
}


def sentence(language: str, index: int, order: random.Random, rng: random.Random) -> str:
    """Sentence ``index`` of a text; ``order`` fixes the text's order of patterns, ``rng`` the words of this one."""
    patterns, words = _TABLES[language]
    at = list(range(len(patterns)))
    order.shuffle(at)
    filled = {slot: rng.choice(choices) for slot, choices in words.items()}
    filled["when_low"] = filled["when"][0].lower() + filled["when"][1:]
    text = patterns[at[index % len(at)]].format(**filled)
    return text[0].upper() + text[1:]
