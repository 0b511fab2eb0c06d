"""Terms, sentences and sections of generated notes. None is taken from a patient's record.

In sentences, `{d}` is a disease, `{s}` a symptom and `{t}` a treatment. Other slots are numbers or
placeholders.
"""

from __future__ import annotations

TERMS = {
    "d": (
        "pneumonia", "congestive heart failure", "hypertension", "type 2 diabetes mellitus",
        "atrial fibrillation", "acute kidney injury", "chronic obstructive pulmonary disease",
        "urinary tract infection", "asthma", "sepsis", "deep vein thrombosis", "pulmonary embolism",
        "gout", "coronary artery disease", "anemia", "cirrhosis", "myocardial infarction", "stroke",
        "osteoarthritis", "depression",
    ),
    "s": (
        "chest pain", "shortness of breath", "fever", "nausea", "vomiting", "abdominal pain",
        "cough", "headache", "dizziness", "fatigue", "diarrhea", "chills", "back pain", "edema",
        "confusion", "palpitations",
    ),
    "t": (
        "aspirin", "metoprolol", "lisinopril", "furosemide", "heparin", "warfarin", "insulin",
        "vancomycin", "metformin", "acetaminophen", "levofloxacin", "atorvastatin", "omeprazole",
        "prednisone", "albuterol", "mechanical ventilation", "hemodialysis", "physical therapy",
        "blood transfusion", "oxygen",
    ),
}  # fmt: skip
"""Slot -> terms, used if the concept table has none."""

TYPES = {
    "d": {"T046", "T047", "T048", "T191", "T037", "T049", "T019", "T020", "T190", "T050"},
    "s": {"T184", "T033"},
    "t": {"T061", "T121", "T109", "T195", "T200", "T058", "T123", "T125", "T127", "T116"},
}
"""Slot -> semantic types of its concepts."""

PLACEHOLDERS = {
    "a": (
        "[**Known lastname {n}**]", "[**First Name8 (NamePattern2) {n}**]",
        "[**Last Name (un) {n}**]", "[**Doctor Last Name {n}**]", "[** **]", "[**Name (NI) {n}**]",
    ),
    "w": ("[**{y}-{m}-{k}**]", "[**{m}-{k}**]", "[**Month (only) {n}**]", "[**{m}-/{y}**]"),
    "o": ("[**Hospital1 {k}**]", "[**Hospital Ward Name {n}**]", "[**Location (un) {n}**]"),
    "c": ("[**Telephone/Fax (1) {n}**]", "[**Pager number {n}**]", "[**MD Number(1) {n}**]"),
}  # fmt: skip
"""Slot -> placeholders of a person, a date, a place or a number. Wrapping may break their lines."""

SENTENCES = (
    "The patient is a {n} y.o. with a history of {d} and {d}, admitted to {o} with {s}.",
    "This is an [**Age over 90 **] year old with known {d}.",
    "Pt. denies {s}, {s} or {s}.",
    "No evidence of {d}.",
    "Dr. {a} was called at {c} about worsening {s}.",
    "Started on {t} {n} mg p.o. b.i.d. for {d}.",
    "Continue {t} 2.5 mg q.d., hold {t} if systolic below {n}.",
    "Was seen by {a} on {w} and treated with {t} for presumed {d} without relief of {s}.",
    "Family history is notable for {d} in the mother, and no {d}.",
    'Describes the {s} as "dull" and "worse at night", {k} out of 10.',
    "Creatinine 1.{n}, WBC {n}.5, Hct {n}%.",
    "Chest film of {w} shows no {d}; there is mild {s} on exam.",
    "{s} improved after {t}.",
    "R/O {d}. Plan for {t} in the morning.",
    "Vital signs: T 98.{k} BP 1{n}/{n} HR {n} RR 18 O2 sat 9{k}% on 2L.",
    "Path C:\\labs\\{n} reviewed.",
    "Follow up with Dr. {a} at {o} in {k} weeks for {d}.",
)
"""Prose with negation, abbreviations, decimals, quotes, a backslash, terms and placeholders."""

SECTIONS = (
    ("HISTORY OF PRESENT ILLNESS:", "prose"),
    ("Past Medical History:", "list"),
    ("Medications on Admission:", "drugs"),
    ("Allergies:", "allergies"),
    ("Physical Exam:", "prose"),
    ("Pertinent Results:", "prose"),
    ("ASSESSMENT AND PLAN", "problems"),
    ("Brief Hospital Course:", "prose"),
    ("Discharge Disposition:", "prose"),
)
"""Heading and form of each section."""

CATEGORIES = (
    ("Nursing", "Progress Note"), ("Physician ", "Attending Note"), ("Discharge summary", "Report"),
    ("Radiology", 'CHEST (PORTABLE AP) "STAT"'), ("Nursing/other", "Report"),
    ("Respiratory ", "Care Note"), ("ECG", "Report"), ("Case Management ", "Note"),
)  # fmt: skip
"""CATEGORY as spelled in MIMIC-III, three with a trailing space, and DESCRIPTION."""
