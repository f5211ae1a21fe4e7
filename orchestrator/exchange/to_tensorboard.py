"""A sweep as TensorBoard's event files, a folder a job, written without TensorBoard.

A file is records of TFRecord's framing (length, masked CRC-32C of it, data, masked CRC-32C of that); each is
a protocol buffer `Event` with one scalar. The field numbers are those of TensorBoard's `event.proto` and
`summary.proto`, the encoding https://protobuf.dev/programming-guides/encoding.
"""

import math
import os
import re
import struct
from pathlib import Path

from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.curves import JobCurves, job_curves
from headcount.trainer.errors import UserError

_VERSION = b"brain.Event:2"


def write_tensorboard(session: Session, sweep: str, folder: Path) -> int:
    """Write every job's curves and result under `folder`; how many jobs. A job's file is replaced as a whole.

    Numbers that were not finite are NaN. Raises `UserError` for an unknown sweep, and where nothing can be
    written.
    """
    count = 0
    for job in job_curves(session, sweep):
        place = folder / re.sub(r"[^\w.,=+-]", "_", job.name)
        # the name's end tells TensorBoard that it is one of its files
        file = place / f"events.out.tfevents.{int(job.created.timestamp())}.headcount.{job.id[:12]}"
        partial = place / f".{job.id[:12]}.partial"
        try:
            place.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(_file(job))
            os.replace(partial, file)
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error
        count += 1
    return count


def _file(job: JobCurves) -> bytes:
    begun = job.created.timestamp()
    records = [_record(_double(1, begun) + _bytes(3, _VERSION))]
    for name, points in job.curves.items():
        records += [_scalar(begun, name.replace(".", "/"), step, value) for step, value in points]
    if job.tail_mean is not None:
        last = max((step for points in job.curves.values() for step, _ in points), default=0)
        records.append(_scalar(begun, "tail_mean", last, job.tail_mean))
    return b"".join(records)


def _scalar(moment: float, tag: str, step: int, value: float | None) -> bytes:
    number = math.nan if value is None else value
    pair = _bytes(1, tag.encode()) + _key(2, 5) + struct.pack("<f", number)
    return _record(_double(1, moment) + _key(2, 0) + _varint(step) + _bytes(5, _bytes(1, pair)))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """The Castagnoli cyclic redundancy check (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _entry(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = [_entry(number) for number in range(256)]
