//! Names that the user may have meant.

use crate::failure::distance;

/// The most names that are suggested.
const TOLD: usize = 5;

/// Views of other databases, and the ones that show the same here.
const ELSEWHERE: [(&[&str], &[&str]); 9] = [
    (&["v$process", "v$sql", "v$sqlarea", "v$instance"], &["v$session"]),
    (&["v$asm_client", "v$lock"], &["v$session"]),
    (&["v$sga", "v$sgastat", "v$pgastat", "v$sga_dynamic_components"], &["v$memory_budget"]),
    (&["v$filestat", "v$iostat_function"], &["v$iostat_file", "v$asm_disk_iostat"]),
    (&["v$segstat", "v$segstat_name"], &["v$segment_statistics"]),
    (&["v$buffer_pool", "v$bh", "v$db_cache_advice"], &["v$buffer_pool_statistics"]),
    (&["v$mttr_target_advice", "v$fast_start_transactions"], &["v$instance_recovery"]),
    (&["v$archived_log"], &["v$log_history"]),
    (&["v$spparameter", "v$system_parameter"], &["v$parameter"]),
];

/// The nearest of `names` to one that is not among them: those with the same purpose here, then those
/// with the same beginning, then those with the smallest edit distance.
pub fn suggestions(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let same: Vec<&str> = ELSEWHERE
        .iter()
        .filter(|(foreign, _)| foreign.contains(&wanted.as_str()))
        .flat_map(|(_, own)| own.iter().copied())
        .collect();
    let begins = |name: &str| {
        let common = name.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
        // The common prefix of all views is ignored.
        if wanted.starts_with("v$") { common.saturating_sub(2) } else { common }
    };
    names.sort_by_key(|name| {
        let far = distance(name, &wanted);
        let close = far <= 2;
        let begins = begins(name).min(4);
        (!same.contains(&name.as_str()), !close, std::cmp::Reverse(begins), far)
    });
    names.truncate(TOLD);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_the_same_goes_before_what_sounds_alike() {
        let names = ["v$log", "v$session", "v$parameter", "v$session_wait", "lineitem", "orders"];
        let near = |wanted| suggestions(wanted, names.map(str::to_owned).to_vec());
        assert_eq!(near("v$process")[..2], ["v$session", "v$parameter"]);
        assert_eq!(near("v$sessions")[0], "v$session");
        assert_eq!(near("lineitems")[0], "lineitem");
        assert_eq!(near("order")[0], "orders");
        assert_eq!(near("v$param")[0], "v$parameter");
    }
}
