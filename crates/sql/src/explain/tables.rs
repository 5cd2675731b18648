//! The tables that a query names, to find out which of them a scan reads.

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use crate::error::shown;
use crate::files::table::FileTable;

/// A table that a query names.
struct Named {
    name: String,
    schema: SchemaRef,
    files: Vec<ListingTableUrl>,
}

/// The tables that a query names.
#[derive(Default)]
pub(crate) struct Tables(Vec<Named>);

impl Tables {
    /// The tables of a plan, including its subqueries.
    ///
    /// # Errors
    /// Only an error inside DataFusion; none is expected.
    pub fn of(plan: &LogicalPlan) -> Result<Tables> {
        let mut tables = Vec::new();
        plan.apply_with_subqueries(|plan| {
            if let LogicalPlan::TableScan(scan) = plan {
                let provider = source_as_provider(&scan.source).ok();
                let files = provider.as_ref().and_then(|p| p.downcast_ref::<FileTable>());
                tables.push(Named {
                    name: shown(scan.table_name.to_string()),
                    schema: scan.source.schema(),
                    files: files.map(|table| table.urls().to_vec()).unwrap_or_default(),
                });
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Tables(tables))
    }

    /// The table that has exactly this schema object.
    pub fn by_schema(&self, schema: &SchemaRef) -> Option<String> {
        let same = |named: &&Named| std::sync::Arc::ptr_eq(&named.schema, schema);
        self.0.iter().find(same).map(|named| named.name.clone())
    }

    /// The table that files belong to.
    pub fn by_files(&self, scan: &FileScanConfig) -> Option<String> {
        let files = || scan.file_groups.iter().flat_map(|group| group.iter());
        let of = |named: &&Named| {
            let is_in = |url: &ListingTableUrl| {
                url.object_store() == scan.object_store_url
                    && files().all(|file| url.contains(&file.object_meta.location, false))
            };
            named.files.iter().any(is_in)
        };
        self.0.iter().find(of).map(|named| named.name.clone())
    }
}
