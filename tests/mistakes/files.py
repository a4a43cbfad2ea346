"""Mistakes in files: paths, formats and contents."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

import fastcep as fc
from fastcep.io import open_source, write_matches
from mistakes.catalogue import Mistakes

MISTAKES = Mistakes()
SCHEMA = fc.Schema({"Payment": {"card": "int64", "amount": "float64", "online": "bool"}}, time="ts", time_unit="s")
HEAD = "ts,card,amount,online\n"


def _read(path: Path | str, schema: fc.Schema = SCHEMA, **options: Any) -> None:
    engine = fc.Engine(fc.parse(f"PATTERN SEQ({schema.type_names[0]} a) WITHIN 1h", schema))
    with open_source(path, schema, **options) as source:
        for batch in source:
            engine.process(batch, origin=source.origin, rows=source.rows)


def _csv(folder: Path, text: str | bytes, name: str = "events.csv", schema: fc.Schema = SCHEMA, **options: Any) -> None:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    _read(path, schema, **options)


@MISTAKES
def no_such_file(folder: Path) -> None:
    _read(folder / "events.csv")


@MISTAKES
def file_name_misspelt(folder: Path) -> None:
    (folder / "events.csv").write_text(HEAD)
    _read(folder / "event.csv")


@MISTAKES
def empty_path(folder: Path) -> None:
    _read("")


@MISTAKES
def pattern_without_files(folder: Path) -> None:
    _read(folder / "*.parquet")


@MISTAKES
def folder_without_files(folder: Path) -> None:
    _read(folder)


@MISTAKES
def folder_with_other_files(folder: Path) -> None:
    (folder / "notes.txt").write_text("hello")
    _read(folder)


@MISTAKES
def unknown_ending(folder: Path) -> None:
    _csv(folder, HEAD, "events.txt")


@MISTAKES
def excel_file(folder: Path) -> None:
    _csv(folder, b"PK\x03\x04" + bytes(60), "events.xlsx")


@MISTAKES
def json_array(folder: Path) -> None:
    _csv(folder, '[{"ts": 1, "card": 7}]', "events.json")


@MISTAKES
def json_array_in_a_jsonl_file(folder: Path) -> None:
    _csv(folder, '[\n{"ts": 1, "card": 7, "amount": 1.5, "online": true}\n]\n', "events.jsonl")


@MISTAKES
def unknown_format_option(folder: Path) -> None:
    _csv(folder, HEAD, format="json")


@MISTAKES
def parquet_file_that_is_csv(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,true\n", "events.parquet")


@MISTAKES
def csv_file_that_is_parquet(folder: Path) -> None:
    path = folder / "events.csv"
    parquet.write_table(pa.table({"ts": [1], "card": [7], "amount": [9.5], "online": [True]}), path)
    _read(path)


@MISTAKES
def parquet_file_that_is_cut(folder: Path) -> None:
    path = folder / "events.parquet"
    parquet.write_table(pa.table({"ts": [1], "card": [7], "amount": [9.5], "online": [True]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    _read(path)


@MISTAKES
def gzip_file_that_is_not_compressed(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,true\n", "events.csv.gz")


@MISTAKES
def gzip_file_that_is_cut(folder: Path) -> None:
    _csv(folder, gzip.compress((HEAD + "1,7,9.5,true\n" * 1000).encode(), mtime=0)[:-30], "events.csv.gz")


@MISTAKES
def empty_csv(folder: Path) -> None:
    _csv(folder, "")


@MISTAKES
def csv_without_a_header(folder: Path) -> None:
    _csv(folder, "1,7,9.5,true\n2,7,1.5,false\n")


@MISTAKES
def csv_with_semicolons(folder: Path) -> None:
    _csv(folder, "ts;card;amount;online\n1;7;9.5;true\n")


@MISTAKES
def csv_without_a_column(folder: Path) -> None:
    _csv(folder, "ts,card,amount\n1,7,9.5\n")


@MISTAKES
def csv_with_a_renamed_column(folder: Path) -> None:
    _csv(folder, "ts,card_number,amount,online\n1,7,9.5,true\n")


@MISTAKES
def csv_with_a_column_twice(folder: Path) -> None:
    _csv(folder, "ts,card,amount,online,card\n1,7,9.5,true,8\n")


@MISTAKES
def csv_with_a_field_too_many(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,true\n2,7,9.5,true,x\n")


@MISTAKES
def csv_with_a_field_too_few(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,true\n2,7,9.5\n")


@MISTAKES
def csv_with_a_text_for_a_number(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,true\n2,seven,9.5,true\n")


@MISTAKES
def csv_with_a_decimal_comma(folder: Path) -> None:
    _csv(folder, 'ts,card,amount,online\n1,7,"9,5",true\n')


@MISTAKES
def csv_with_na(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,NA,true\n")


@MISTAKES
def csv_with_yes_for_a_bool(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,yes\n")


@MISTAKES
def csv_with_an_open_quote(folder: Path) -> None:
    _csv(folder, HEAD + '1,7,"9.5,true\n2,7,9.5,true\n')


@MISTAKES
def csv_in_latin_1(folder: Path) -> None:
    schema = fc.Schema({"Payment": {"city": "string"}}, time_unit="s")
    _csv(folder, "ts,city\n1,Köln\n".encode("latin-1"), schema=schema)


@MISTAKES
def unknown_encoding(folder: Path) -> None:
    _csv(folder, HEAD, encoding="utf8mb4")


@MISTAKES
def delimiter_of_two_characters(folder: Path) -> None:
    _csv(folder, HEAD, delimiter="||")


@MISTAKES
def csv_with_times_out_of_order(folder: Path) -> None:
    _csv(folder, HEAD + "5,7,9.5,true\n2,7,9.5,true\n")


@MISTAKES
def csv_with_a_time_in_another_format(folder: Path) -> None:
    _csv(folder, HEAD + "31.12.2024 10:00,7,9.5,true\n")


@MISTAKES
def time_format_that_does_not_fit(folder: Path) -> None:
    schema = fc.Schema({"Payment": {"card": "int64"}}, time_format="%d.%m.%Y")
    _csv(folder, "ts,card\n2024-12-31,7\n", schema=schema)


@MISTAKES
def csv_without_a_time(folder: Path) -> None:
    _csv(folder, HEAD + "1,7,9.5,true\n,7,9.5,true\n")


@MISTAKES
def json_lines_with_a_broken_line(folder: Path) -> None:
    _csv(folder, '{"ts": 1, "card": 7, "amount": 1.5, "online": true}\n{"ts": 2, "card": \n', "events.jsonl")


@MISTAKES
def json_lines_with_a_text_for_a_number(folder: Path) -> None:
    _csv(folder, '{"ts": 1, "card": "seven", "amount": 1.5, "online": true}\n', "events.jsonl")


@MISTAKES
def json_lines_without_the_time(folder: Path) -> None:
    _csv(folder, '{"time": 1, "card": 7, "amount": 1.5, "online": true}\n', "events.jsonl")


@MISTAKES
def parquet_with_a_text_column(folder: Path) -> None:
    path = folder / "events.parquet"
    parquet.write_table(pa.table({"ts": [1], "card": ["7"], "amount": [9.5], "online": [True]}), path)
    _read(path)


@MISTAKES
def query_file_that_does_not_exist(folder: Path) -> None:
    fc.parse_file(folder / "fraud.cep")


@MISTAKES
def query_file_that_is_a_folder(folder: Path) -> None:
    fc.parse_file(folder)


@MISTAKES
def query_file_with_an_error(folder: Path) -> None:
    path = folder / "fraud.cep"
    path.write_text("EVENT Payment (card int64)\nQUERY q\nPATTERN SEQ(Paymnt a)\nWITHIN 1h\n")
    fc.parse_file(path)


@MISTAKES
def query_file_that_is_not_text(folder: Path) -> None:
    path = folder / "fraud.cep"
    path.write_bytes(b"\xff\xfe\x00\x01")
    fc.parse_file(path)


@MISTAKES
def matches_written_to_an_unknown_ending(folder: Path) -> None:
    write_matches(_matches(), folder / "matches.xlsx")


@MISTAKES
def matches_written_into_a_missing_folder(folder: Path) -> None:
    write_matches(_matches(), folder / "results" / "matches.csv")


@MISTAKES
def matches_written_to_a_folder(folder: Path) -> None:
    write_matches(_matches(), folder)


def _matches() -> pa.Table:
    engine = fc.Engine(fc.parse("PATTERN SEQ(Payment a) WITHIN 1h", SCHEMA))
    return engine.send("Payment", ts=1, card=7).to_arrow()
