"""Words, names and numbers of the training examples: listed ones, and made-up ones of random syllables."""

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from .heldout import WORDS as HELD_OUT
from .lists import listed, words_of

CITIES: Final = listed(
    """
    Amsterdam;Athens;Bangkok;Barcelona;Beijing;Berlin;Boston;Brussels;Budapest;Buenos Aires;Cairo;Cape Town;
    Chicago;Dallas;Delhi;Denver;Dubai;Dublin;Florence;Geneva;Hamburg;Hong Kong;Istanbul;Jakarta;Kyoto;Las Vegas;
    Lima;Lisbon;London;Los Angeles;Madrid;Manila;Melbourne;Mexico City;Miami;Milan;Montreal;Moscow;Mumbai;Munich;
    Nairobi;New York;Osaka;Oslo;Paris;Prague;Rio de Janeiro;Rome;San Francisco;Seattle;Seoul;Shanghai;Singapore;
    Stockholm;Sydney;Tokyo;Toronto;Vienna;Warsaw;Zurich
    """
)

COMMON: Final = words_of(
    """
    account address air album alarm animal answer app apple area arrival art article author baby bag ball band bank
    bar bath battery beach bear bed bike bill bird board boat body book bottle bowl box brain bread bridge brush bus
    business button cake calendar camera camp car card cat chair chart chat cheese child church circle class clock
    cloud club coat code coffee coin color company computer concert contact cook copy corner country course cow
    cream crowd cup customer dance data day dentist desk device dinner doctor document dog door dream dress drink
    driver ear earth egg email engine event exam eye face fact factory family farm father file film finger fire fish
    flight floor flower fly food foot forest fork friend fruit game garden gift girl glass gold grass group guest
    guitar hair hall hand hat heart hill history holiday home horse hospital hotel hour house ice idea image invoice
    island item job juice key king kitchen knife label lake lamp language law leaf leg lesson letter level library
    light line lion list lunch machine mail map market meal meat meeting member memory menu message milk mirror
    model money monkey month moon morning mother mountain mouse movie museum music name nature neck net news night
    nose note number nurse object ocean office oil onion order page paint pair paper parent park part party path pen
    people pepper person phone photo piano picture pilot pipe place plan plane plant plate player pocket poem point
    pool post price prize problem product project queen question rabbit radio recipe record report result rice ring
    river road rock role roof room rope rose route salad salt sand school science score sea season seat seed
    sentence ship shirt shoe shop sign sister size skin sky snake soap song soup space spoon sport staff stage star
    station stock stone store storm story street student sugar summer sun table tail task taxi tea teacher team
    ticket tiger toy track train translation travel tree trip truck umbrella unit user valley video village voice
    wall watch water week wheel wind window wine winter wolf woman wood word work world year zoo
    """
)

QUALITIES: Final = words_of(
    """
    bad best big black blue bright brown cheap clean cold cool dark deep dry early easy empty fair famous fast free
    fresh full funny good great green happy hard heavy high hot large late light long loud low modern new nice old
    open pink poor pretty quick quiet red rich round short simple slow small soft strong sweet tall thin tiny warm
    weak white wide wild yellow young
    """
)

VERBS: Final = words_of(
    """
    add arrange ask begin block book break bring build buy call cancel carry catch change clean clear close collect
    combine compare connect cook copy count create cut delete describe draw drive drop edit explain fetch fill find
    fix follow get give grow help hide hold install invite join keep learn leave list lock log lower make mark
    measure meet merge mix move open order pack paint park pay pick plan play post prepare press print protect pull
    push put raise rate read record remove rename repair repeat replace reply report reset return ride roll save
    sell send set share shift show sing sort split start stop store switch teach test throw touch track train
    translate turn unlock update upload use walk warm wash wear write
    """
)

_ONSETS: Final = words_of(
    """
    b c d f g h j k l m n p r s t v w y z b c d f g h j k l m n p r s t v w y z b d g h k l m n p r s t v w
    bl br ch cl cr dr fl fr gl gr kl kr kn ph pl pr qu sc sh sk sl sm sn sp st str sw th tr tw wh x zh
    """
)
_VOWELS: Final = words_of("a a a a e e e e i i i o o o u u ai au ea ee ei ia ie io oa oo ou y")
_CODAS: Final = [""] * 26 + words_of("b ck d f g k l ld ll m n nd ng nk nt p r rd rg rk rn rt s sh ss st t th tz v x z")
_ACCENTS: Final = "áàâäãåçéèêëíîïñóòôöøõúùûüýšžčćřłńęąşğőű"


@cache
def held_out() -> frozenset[str]:
    """The words that only the evaluation may use, in lower case."""
    return frozenset(HELD_OUT)


def pick(rng: random.Random, *options: str) -> str:
    """One of several texts."""
    return rng.choice(options)


def made_up(rng: random.Random, syllables: int | None = None) -> str:
    """A made-up word in lower case."""
    while True:
        count = syllables or rng.choice((1, 2, 2, 2, 3, 3))
        parts = []
        for i in range(count):
            onset = "" if i == 0 and rng.random() < 0.15 else rng.choice(_ONSETS)
            parts.append(onset + rng.choice(_VOWELS) + rng.choice(_CODAS))
        word = "".join(parts)
        if rng.random() < 0.1:  # no syllables at all: any letters
            word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 7)))
        if rng.random() < 0.05:
            at = rng.randrange(len(word))
            word = word[:at] + rng.choice(_ACCENTS) + word[at + 1 :]
        if len(word) > 1 and word not in held_out():
            return word


def place(rng: random.Random, known: float = 0.2) -> str:
    """The name of a place. ``known``: the probability of a known city."""
    if rng.random() < known:
        return rng.choice(CITIES)
    name = made_up(rng).capitalize()
    roll = rng.random()
    if roll < 0.12:
        name += " " + made_up(rng).capitalize()
    elif roll < 0.18:
        name = (
            pick(rng, "New", "San", "Santa", "Port", "Saint", "St.", "El", "La", "Los", "North", "Upper", "Bad")
            + " "
            + name
        )
    elif roll < 0.23:
        name += pick(rng, "-", " de ", " am ", " upon ", " del ", "'") + made_up(rng).capitalize()
    elif roll < 0.27:
        name += " " + pick(rng, "City", "Beach", "Falls", "Springs", "Island", "Bay", "Hills", "Valley")
    elif roll < 0.31:
        name += ", " + made_up(rng).capitalize()
    return name.lower() if rng.random() < 0.06 else name


def timezone(rng: random.Random) -> str:
    """A name such as ``Europe/Rome``."""
    area = pick(rng, "Europe", "Asia", "America", "Africa", "Australia", "Pacific")
    return f"{area}/{place(rng).replace(' ', '_').replace(',', '')}"


def number(rng: random.Random) -> str:
    """A number as users write it."""
    whole = str(rng.randint(0, 10 ** rng.randint(1, 4)))
    if rng.random() < 0.18:
        return f"{whole}.{rng.randint(0, 99) or ''}{rng.randint(1, 9)}"
    return whole


def word(rng: random.Random) -> str:
    """A noun, often a made-up one."""
    return made_up(rng) if rng.random() < 0.4 else rng.choice(COMMON)


def phrase(rng: random.Random) -> str:
    """A search query."""
    makers: Sequence[Callable[[], str]] = (
        lambda: word(rng),
        lambda: f"{word(rng)} {word(rng)}",
        lambda: f"{rng.choice(QUALITIES)} {word(rng)} in {place(rng)}",
        lambda: f"{rng.choice(QUALITIES)} {word(rng)}s",
        lambda: f"{rng.choice(QUALITIES)} {word(rng)} {word(rng)}",
        lambda: f"how to {rng.choice(VERBS)} {pick(rng, 'a ', 'the ', '')}{word(rng)}",
        lambda: f"{word(rng)} and {word(rng)}",
        lambda: (
            f"{word(rng)} {pick(rng, 'of', 'for', 'with', 'in', 'from', 'near', 'to', 'on', 'about', 'at')} "
            f"{pick(rng, '', 'the ')}{word(rng)}"
        ),
        lambda: f"{made_up(rng).capitalize()} {made_up(rng).capitalize()}",
        lambda: f"{word(rng)} {rng.randint(1, 2030)}",
        lambda: f"{made_up(rng).capitalize()} {word(rng)} {word(rng)}",
        lambda: f"the {rng.choice(QUALITIES)} {word(rng)} of {place(rng)}",
        lambda: f"the history of {place(rng)}",
    )
    return rng.choice(makers)()


def person(rng: random.Random) -> str:
    """A name of a person."""
    first = made_up(rng).capitalize()
    return f"{first} {made_up(rng).capitalize()}" if rng.random() < 0.4 else first
