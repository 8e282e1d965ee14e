"""Documents in every format, for the tests of the sources."""

import bz2
import gzip
import json
import lzma

import lz4.frame
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

TEXTS = [f'문서 {number}\n"quoted", tab\t é\U0001f600' * (number % 7) for number in range(200)]
RECORDS = [
    {"id": number, "text": text, "lang": "ko" if number % 2 else "en"} for number, text in enumerate(TEXTS)
]


def zstd_compress(data):
    return pa.compress(data, codec="zstd", asbytes=True)


COMPRESS = {
    ".gz": gzip.compress,
    ".zst": zstd_compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lz4": lz4.frame.compress,
}


def jsonl(records=RECORDS):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def csv_bytes(delimiter):
    def quote(text):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'

    rows = [delimiter.join([str(record["id"]), quote(record["text"]), record["lang"]]) for record in RECORDS]
    return "\r\n".join([delimiter.join(["id", "text", "lang"]), *rows]).encode()


def write_format(folder, kind):
    path = folder / f"data.{kind}"
    table = pa.Table.from_pylist(RECORDS)
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=30)
    elif kind == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, path, compression="zstd", chunksize=30)
    elif kind == "arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
    else:
        content = {
            "jsonl": jsonl(),
            "json": json.dumps(RECORDS).encode(),
            "csv": csv_bytes(","),
            "tsv": csv_bytes("\t"),
        }
        path.write_bytes(content[kind])
    return path
