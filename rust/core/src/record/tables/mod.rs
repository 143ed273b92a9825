//! Records as rows and columns of tables.

pub(super) mod columns;
pub(super) mod mapped_rows;
pub(super) mod row;
pub(super) mod table;
