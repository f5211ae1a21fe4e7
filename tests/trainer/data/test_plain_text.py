"""Text out of a package's files: manuals, pages, dictionaries and code, in English."""

import gzip

import pytest

from headcount.trainer.data.plain_text import plain_text

MANUAL = r""".\" a comment
.TH HEAD 1
.SH NAME
head \- output the first part of \fIfiles\fP
.PP
Print the first 10 lines of each
.B FILE
to standard output\&.
"""


def test_a_manual_page_is_read_without_its_requests() -> None:
    read = plain_text("usr/share/man/man1/head.1.gz", gzip.compress(MANUAL.encode()))
    assert read == (
        "HEAD 1\n\n NAME\nhead - output the first part of files\n\n\n"
        "Print the first 10 lines of each\nFILE\nto standard output.\n"
    )


def test_a_page_is_read_as_its_reader_sees_it() -> None:
    page = "<head><title>T</title></head><body><nav>menu</nav><h1>One</h1><p>a &amp;\n  b <i>c</i></p>"
    page += "<ul><li>d<li>e</ul><pre>x  =\n  1</pre><script>no()</script></body>"
    assert plain_text("doc/a.html", page.encode()) == "One\n\na & b c\n\nd\ne\n\nx  =\n  1"


@pytest.mark.parametrize(
    ("path", "content", "read"),
    [
        ("a/b.py", b"x = 1  \r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ("usr/share/dictd/w.dict.dz", gzip.compress(b"a word"), "a word"),
        ("a/b.png", b"text", None),
        ("a/b.txt", b"\xff\xfe", None),
        ("a/b.txt", b"a\0b", None),
        ("a/b.txt.gz", b"not gzip", ""),
        ("a/b.rst", "Это не по-английски".encode(), None),
        ("a/b.rst", ("é" + "e" * 99).encode(), "é" + "e" * 99),
    ],
)
def test_other_files_are_text_as_it_is_or_left_out(path: str, content: bytes, read: str | None) -> None:
    assert plain_text(path, content) == read
