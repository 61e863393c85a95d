//! Schemas of the types that no derive can describe: ids, moments, words.

use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema, SchemaFormat};

use crate::timestamp::Timestamp;

fn text(format: SchemaFormat) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).format(Some(format))
}

fn whole(object: impl Into<Object>) -> RefOr<Schema> {
    RefOr::T(Schema::Object(object.into()))
}

pub(crate) fn id() -> RefOr<Schema> {
    whole(text(SchemaFormat::Custom("uuid".to_owned())))
}

pub(crate) fn words(words: &[&'static str]) -> RefOr<Schema> {
    let object = ObjectBuilder::new().schema_type(Type::String);
    whole(object.enum_values(Some(words.iter().copied())))
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        whole(text(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
    }
}

impl utoipa::ToSchema for Timestamp {}
