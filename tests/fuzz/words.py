"""Tokens of each format, for mutations."""

from __future__ import annotations

JSON = tuple(rb'" : , { } [ ] 0 null 1.5 "" true'.split())
MANIFEST = (
    *rb'"splits" "shards" "rows" "file" "ids" "size" "labels" "train" "sha256"'.split(),
    *JSON,
)
OBJECTS = (
    *rb'"tokens" "ner_tags" "text" "entities" "passages" "offsets" "start" "id"'.split(),
    *JSON,
)
TOOLS = (
    *rb'"text" "spans" "annotations" "result" "value" "labels" "data" "answer" "projects"'.split(),
    *rb'"documents" "cui" "responses" "passages" "offset" "ner" "_input_hash" "reject"'.split(),
    *rb'"extractions" "extraction_class" "char_interval" "start_pos" "end_pos" "input"'.split(),
    *rb'"output" "entities" "entity" "index" "word" "Entities" "BeginOffset" "EndOffset"'.split(),
    *JSON,
)
AZURE = (
    *rb'"assets" "documents" "location" "dataset" "Train" "Test" "entities" "labels"'.split(),
    *rb'"category" "offset" "length" "../x" "stringIndexType" "Utf16CodeUnit"'.split(),
    *JSON,
)
COMPREHEND = (
    *rb'"Entities" "BeginOffset" "EndOffset" "Type" "Text" "Category" "Attributes"'.split(),
    *JSON,
)
SAVED = (*rb'"splits" "train" "../x" "_data_files" "filename" "_split"'.split(), *JSON)
TOKENIZER = (
    *rb'"vocab" "type" "BPE" "WordPiece" "Unigram" "unk_token" "id" "special" "content" "<s>"'.split(),
    *JSON,
)
XML = (
    *rb"<document> </document> <passage> <offset>9</offset> <text> </text> &amp; <![CDATA[ <!-- &x; <sentence>".split(),
    *(
        b'length="',
        b"<location ",
        b"<?xml",
        b"UTF-16",
        b"<!ENTITY a 'b'>",
        b"<!ATTLIST a b CDATA 'c'>",
    ),
)
TOML = (*rb"= [ ] [[ ]] use { } # ' . 1979-05-27 inf nan".split(), b'"""', b"\n")
MASK = (*rb'use = " rate of joint token span corruption 0.5 units'.split(), *TOML)
TAGS = (
    b"\tO\n",
    b"\tB-Disease",
    b"\tI-X",
    b"\tS-X\n",
    b"-DOCSTART- (7)\n",
    b"###MEDLINE:9\n",
    b"\n \n",
    b"\tP\n",
)
INLINE = (
    b"<START:Disease> ",
    b"<START>",
    b" <END>",
    b"[Disease]",
    b"[/Disease]",
    b"[/",
    b"<Disease>",
    b"</Disease>",
    b'<Disease TYPE="x">',
    b"</",
)
PUBTATOR = (b"|t|", b"|a|", b"\t0\t4\t", b"100", b"\n\n", b"\tDisease")
BRAT = (b"T1\t", b" 0 4", b";", b"\tDisease", b"R1\t", b"\n")
BC2GM = (b"S1 ", b"S1|", b"|", b"0 4", b"\n")
EBM = (b"0\n", b"1\n", b"1,0", b"2", b".\n", b"\n")
CSV = (
    b'"',
    b'""',
    b'","',
    b"ROW_ID",
    b"TEXT",
    b",",
    b"1,1,",
    b"\n",
    b'"\n',
    b"[**",
    b"**]",
    b"cui",
    b"name",
    b"|",
)
RRF = (b"|", b"||", b"ENG", b"C9000001", b"\n")
OBO = (
    b"[Term]",
    b"id: ",
    b"name: ",
    b"xref: UMLS_CUI:",
    b"xref: ",
    b'synonym: "',
    b"\\",
    b"is_obsolete: true\n",
)
CAS = (
    b'"%ID"',
    b'"%TYPE"',
    b'"%MEMBERS"',
    b'"sofaString"',
    b'"begin"',
    b"null",
    b"[",
    b"{",
    b"1e9",
    b"-1",
)
WEBANNO = (
    b"#Text=",
    b"#T_SP=",
    b"[1]",
    b"|",
    b"\\|",
    b"_",
    b"*",
    b"\t0-5\t",
    b"99999999-0",
    b"\\t",
)
CONCEPTS = (b'c="', b'" 1:0 1:1', b'||t="problem"', b" 0:0", b" 999999999:0", b"||", b'"')
TABLE = (b"\t", b"\n", b"1", b"\xd9\xa1", b"\xc2\xb2", b"inf", b"1_0")
VOCABULARY = (b"[UNK]\n", b"[CLS]\n", b"[SEP]\n", b"##a\n", b"\n", b"a b\n")
