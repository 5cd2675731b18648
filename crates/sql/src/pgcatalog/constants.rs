//! Fixed oids: those that PostgreSQL assigns, and those of our own objects.

/// The schema pg_catalog.
pub(super) const PG_CATALOG_OID: u32 = 11;
/// The information schema.
pub(super) const INFORMATION_OID: u32 = 13_000;
/// The schema of our views.
pub(super) const VIEWS_OID: u32 = 9_100;
/// The schema of temporary objects; nobody sees that of another session.
pub(super) const TEMPORARY_OID: u32 = 9_101;
/// Our views: this oid and those after it.
pub(super) const FIRST_VIEW_OID: u32 = 9_200;

/// The role that owns everything.
pub(super) const OWNER_OID: u32 = 10;
/// Its name.
pub(super) const OWNER: &str = "cellar";

/// The role that stands for the owner of the database, as in PostgreSQL: it owns the schema public.
pub(super) const PUBLIC_OWNER_OID: u32 = 6_171;
/// Its name.
pub(super) const PUBLIC_OWNER: &str = "pg_database_owner";
/// The schema public.
pub(super) const PUBLIC_OID: u32 = 2_200;

/// The database.
pub(super) const DATABASE_OID: u32 = 16_384;
/// Its name.
pub(super) const DATABASE: &str = "cellar";

/// Access methods.
pub(super) const HEAP_OID: u32 = 2;
pub(super) const BTREE_OID: u32 = 403;
pub(super) const COLUMNAR_OID: u32 = 9_001;

/// The server of external tables, and its wrapper.
pub(super) const FILES_SERVER_OID: u32 = 9_002;
pub(super) const FILES_WRAPPER_OID: u32 = 9_003;

/// The extension that our own schema, its views and the server of external tables belong to.
pub(super) const EXTENSION_OID: u32 = 9_004;

/// Tablespaces that PostgreSQL always has.
pub(super) const DEFAULT_SPACE_OID: u32 = 1_663;
pub(super) const GLOBAL_SPACE_OID: u32 = 1_664;
/// Those of disk groups: this oid and those after it.
pub(super) const FIRST_SPACE_OID: u32 = 9_900;

/// The collation of texts.
pub(super) const DEFAULT_COLLATION_OID: u32 = 100;

/// The encoding UTF8.
pub(super) const UTF8: i64 = 6;

/// The version of PostgreSQL whose catalogs these are.
pub(super) const SERVER_VERSION: &str = "15.0";
