//! Documents cut off at every byte, and with every bit flipped.

use kron_state::{Document, DocumentError, Known};

use crate::made::{full_document, known};

/// What is left of a document when fields that are not known here are left out.
fn known_fields(mut document: Document) -> Document {
    document.unknown.clear();
    document
}

/// What must be found of damaged bytes: nothing, or what had been written.
fn judge<T: PartialEq + std::fmt::Debug>(
    read: Result<T, DocumentError>,
    written: &T,
    damage: &str,
) -> bool {
    match read {
        Ok(found) => {
            assert_eq!(found, *written, "{damage}");
            true
        }
        Err(DocumentError::Unreadable(_) | DocumentError::Incompatible(_)) => false,
    }
}

/// Damages bytes in every way; returns how many were read as if they were whole.
fn damage_everywhere<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    written: &T,
    parse: impl Fn(&[u8]) -> Result<T, DocumentError>,
) -> usize {
    assert_eq!(parse(bytes).unwrap(), *written);
    let mut passed = 0;
    for length in 0..bytes.len() {
        let whole = judge(parse(&bytes[..length]), written, &format!("cut off at {length}"));
        // Only the end of the line may be missing.
        assert!(!whole || length == bytes.len() - 1, "cut off at {length}");
    }
    let mut flipped = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            let damage = format!("bit {bit} of byte {at}: {}", String::from_utf8_lossy(&flipped));
            passed += usize::from(judge(parse(&flipped), written, &damage));
            flipped[at] = bytes[at];
        }
    }
    // A byte gone, or one twice, as a careless editor leaves it.
    for at in 0..bytes.len() {
        let mut gone = bytes.to_vec();
        let byte = gone.remove(at);
        judge(parse(&gone), written, &format!("byte {at} is gone"));
        let mut twice = bytes.to_vec();
        twice.insert(at, byte);
        judge(parse(&twice), written, &format!("byte {at} is there twice"));
    }
    passed
}

/// A flipped bit in the key of the checksum makes it a field that nobody knows, and one in the end
/// of the line may make it a space: the rest is then as it was. Everything else is found out.
const HARMLESS_MAX: usize = 8 * ("Checksum".len() + 1);

#[test]
fn a_damaged_document_is_never_taken_for_another_one() {
    let document = full_document("db-backup");
    let parse = |bytes: &[u8]| Document::parse(bytes, Some("db-backup")).map(known_fields);
    let passed = damage_everywhere(&document.to_bytes(), &document, parse);
    assert!(passed <= HARMLESS_MAX, "{passed} damages were not seen");
}

#[test]
fn damaged_knowledge_is_never_taken_for_another() {
    let known = known(&["a", "db-backup"]);
    let parse = |bytes: &[u8]| {
        Known::parse(bytes).map(|mut known| {
            known.unknown.clear();
            known
        })
    };
    let passed = damage_everywhere(&known.to_bytes(), &known, parse);
    assert!(passed <= HARMLESS_MAX, "{passed} damages were not seen");
}

#[test]
fn damage_is_unreadable_and_not_merely_unusable() {
    let document = full_document("db-backup");
    let mut bytes = document.to_bytes();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let at = text.find("LastHandledPeriodID").unwrap();
    bytes[at] = b'K';
    let error = Document::parse(&bytes, None).unwrap_err();
    assert!(matches!(error, DocumentError::Unreadable(_)), "{error:?}");
    // A checksum that somebody moved was not checked, and is not to be relied upon.
    let (content, checksum) = text.trim_end().rsplit_once(",\"Checksum\":").unwrap();
    let checksum = checksum.trim_end_matches('}');
    let moved = format!("{{\"Checksum\":{checksum},{}}}", &content[1..]);
    let error = Document::parse(moved.as_bytes(), None).unwrap_err();
    assert!(matches!(error, DocumentError::Unreadable(_)), "{error:?}");
    // Without it, it is as good as one of another implementation.
    let without = format!("{content}}}");
    assert_eq!(Document::parse(without.as_bytes(), None).unwrap(), document);
}
