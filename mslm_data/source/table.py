"""The table of formats: name in a pipeline's `use` -> class that reads it."""

from __future__ import annotations

from typing import Any

from mslm_data.registry import Registry

SOURCES = Registry(
    "source",
    {
        "azure": "mslm_data.source.formats.azure:Azure",
        "bc2gm": "mslm_data.source.formats.bc2gm:Bc2gm",
        "bioc": "mslm_data.source.formats.bioc:BioC",
        "brat": "mslm_data.source.formats.brat:Brat",
        "cas": "mslm_data.source.formats.cas:Cas",
        "comprehend": "mslm_data.source.formats.comprehend:Comprehend",
        "conll": "mslm_data.source.formats.conll:Conll",
        "conllu": "mslm_data.source.formats.conllu:Conllu",
        "ctakes": "mslm_data.source.formats.ctakes:Ctakes",
        "docbin": "mslm_data.source.formats.docbin:DocBin",
        "doccano": "mslm_data.source.formats.row_sources:Doccano",
        "ebm": "mslm_data.source.formats.ebm:EbmNlp",
        "hub": "mslm_data.source.formats.hub:Hub",
        "i2b2": "mslm_data.source.formats.i2b2:I2b2",
        "inline": "mslm_data.source.formats.inline:Inline",
        "jsonl": "mslm_data.source.formats.row_sources:JsonLines",
        "label-studio": "mslm_data.source.formats.row_sources:LabelStudio",
        "medcattrainer": "mslm_data.source.formats.medcattrainer:MedcatTrainer",
        "notes": "mslm_data.source.formats.notes:Notes",
        "omop": "mslm_data.source.formats.omop:Omop",
        "offsets": "mslm_data.source.formats.offsets:Offsets",
        "prodigy": "mslm_data.source.formats.row_sources:Prodigy",
        "pubtator": "mslm_data.source.formats.pubtator:PubTator",
        "webanno": "mslm_data.source.formats.webanno:WebAnno",
        "text": "mslm_data.source.formats.text:PlainText",
        "token-table": "mslm_data.source.formats.token_table:TokenTable",
    },
    plugins="mslm_data.sources",
)


def usual_tables(use: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a pipeline with default options for a source."""
    return {"source": {"use": use}, "segment": {"use": SOURCES.load(use).segmenter}}
