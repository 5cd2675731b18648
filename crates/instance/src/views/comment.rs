//! Rows about what people have written about objects.

use super::row::view;
use crate::catalog::{Catalog, name};

view! {
    /// A comment on an object of the catalog, or on a part of it
    VComment = "v$comment" {
        schema: String = "schema_name", "The schema";
        object: Option<String> = "object_name", "The object; NULL: the schema itself";
        object_type: &'static str = "object_type", "table, view, sequence or schema";
        part_type: Option<&'static str> = "part_type", "column, index or constraint; NULL: the object itself";
        part: Option<String> = "part_name", "The name of the part; NULL: the object itself";
        comment: String = "comment", "What was written";
    }
}

/// All comments of a catalog.
pub(crate) fn rows(catalog: &Catalog) -> Vec<VComment> {
    let mut rows = Vec::new();
    for table in &catalog.tables {
        let (schema, own) = name::parts(&table.name);
        let row = |part: Option<(&'static str, &String)>, comment: &String| VComment {
            schema: schema.to_owned(),
            object: Some(own.to_owned()).filter(|own| !own.is_empty()),
            object_type: table.word(),
            part_type: part.map(|(kind, _)| kind),
            part: part.map(|(_, name)| name.clone()),
            comment: comment.clone(),
        };
        let comments = &table.comments;
        rows.extend(comments.own.iter().map(|text| row(None, text)));
        let parts = [
            ("column", &comments.columns),
            ("index", &comments.indexes),
            ("constraint", &comments.constraints),
        ];
        for (kind, texts) in parts {
            rows.extend(texts.iter().map(|(name, text)| row(Some((kind, name)), text)));
        }
    }
    rows
}
