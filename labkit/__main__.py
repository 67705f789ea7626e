"""The command line: `python -m labkit COMMAND`. Each command imports what it needs when it runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

PROFILES = ("smoke", "workshop", "full")
# Modules that check what a user asked for: their errors are answers to the user, without a traceback.
CHECKS_ARGUMENTS = ("labkit.bench", "labkit.claims", "labkit.lm.runtime", "labkit.studies", "labkit.study")


def positive_int(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} given; a whole number, 1 or more, is accepted, e.g. 5")
    return int(text)


def profile_name(text: str) -> str:
    """One of `PROFILES`, for argparse."""
    if text not in PROFILES:
        raise argparse.ArgumentTypeError(
            f"{text!r} given; accepted are smoke (seconds), workshop (minutes) and full (hours)"
        )
    return text


def name_list(text: str) -> list[str]:
    """Names separated by commas, for argparse."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} given; names separated by commas are accepted")
    return names


def doctor(args: argparse.Namespace) -> int:
    """check this machine and say what is missing"""
    from labkit.doctor import main as report

    return report()


def run(args: argparse.Namespace) -> int:
    """run a study: train its arms, measure, keep the results"""
    from labkit.study import run_study

    run_study(args.study, args.profile, args.seeds, args.workers, args.arms)
    return 0


def claims(args: argparse.Namespace) -> int:
    """list the claims with their verdicts"""
    from labkit.claims import load_ledger

    try:
        ledger = load_ledger()
    except FileNotFoundError as error:
        print(f"no claims yet ({error}); `python -m labkit figures` makes them", file=sys.stderr)
        return 2
    print(json.dumps(ledger, indent=1, ensure_ascii=False) if args.json else claims_table(ledger))
    return 0


def figures(args: argparse.Namespace) -> int:
    """draw figures/, the claims and the gallery from the data there: one study, or all"""
    from labkit.studies import draw_figures

    for path in draw_figures(args.study):
        print(path)
    return 0


def bench(args: argparse.Namespace) -> int:
    """time labkit's ways of doing things against the obvious ones"""
    from labkit.bench import run_benchmarks

    rows = run_benchmarks(args.only)
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        header = ["id", "ours", "theirs", "ratio", "unit"]
        print(text_table([header, *([number(row[key]) for key in header] for row in rows)]))
    return 0


COMMANDS = {command.__name__: command for command in (doctor, run, claims, figures, bench)}


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns of equal width, the first row ruled off as the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def number(value: object) -> str:
    """A number in three digits, anything else as text, None as a dash."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def claims_table(ledger: Sequence[dict]) -> str:
    """The claims ledger for reading: a table with our effect beside the paper's, then the statements."""
    header = ["claim", "verdict", "effect", "95 % interval", "seeds", "paper"]
    rows = [
        [
            claim["id"],
            claim["verdict"],
            number(claim["effect"]),
            f"{number(claim['low'])} to {number(claim['high'])}",
            number(claim["seeds"]),
            number(claim["paper"]),
        ]
        for claim in ledger
    ]
    statements = [f"{claim['id']}: {claim['statement']} ({claim['source']})" for claim in ledger]
    return "\n".join([text_table([header, *rows]), "", *statements])


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; `command` is absent when none was given."""
    parser = argparse.ArgumentParser(prog="python -m labkit", description="How language-model agents learn.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    sub = {
        name: commands.add_parser(name, help=command.__doc__, description=command.__doc__)
        for name, command in COMMANDS.items()
    }
    sub["run"].add_argument("study", metavar="STUDY", help="name of the study, e.g. points24")
    sub["run"].add_argument(
        "--profile",
        type=profile_name,
        default=os.environ.get("LABKIT_PROFILE") or "workshop",
        help="smoke (seconds), workshop (minutes) or full (hours); default: LABKIT_PROFILE, else workshop",
    )
    sub["run"].add_argument("--seeds", type=positive_int, help="how many seeds; default: the profile's")
    sub["run"].add_argument("--workers", type=positive_int, default=1, help="processes at a time; default 1")
    sub["run"].add_argument("--arms", type=name_list, help="only these arms, e.g. sft,rl; default: all")
    sub["claims"].add_argument("--json", action="store_true", help="as a JSON list")
    sub["figures"].add_argument("study", metavar="STUDY", nargs="?", help="only this study; default: all")
    sub["bench"].add_argument("--json", action="store_true", help="as a JSON list")
    sub["bench"].add_argument("--only", metavar="ID", type=name_list, help="only these benchmarks")
    return parser


def raised_in(error: BaseException) -> str:
    """Name of the module whose code raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 failed, 2 asked for something that does not exist."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    try:
        return COMMANDS[args.command](args)
    except (ValueError, FileNotFoundError) as error:
        if raised_in(error) not in CHECKS_ARGUMENTS:
            raise
        print(f"python -m labkit {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
