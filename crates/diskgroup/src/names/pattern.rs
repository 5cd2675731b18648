//! Wildcards: `*` and `%` both match any run of characters, as in ASMCMD.

/// Whether `name` is matched whole by `pattern`; every other character matches itself.
///
/// Takes at most pattern times name steps, whatever the pattern.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Behind the last wildcard, and the first byte it does not swallow yet.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*' | b'%') => {
                p += 1;
                retry = Some((p, n));
            }
            Some(&byte) if byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((behind, swallowed)) = retry else {
                    return false;
                };
                p = behind;
                n = swallowed + 1;
                retry = Some((behind, n));
            }
        }
    }
    pattern[p..].iter().all(|byte| matches!(byte, b'*' | b'%'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_and_percents_match_runs() {
        for (pattern, name) in
            [("*", ""), ("%", "abc"), ("a*c", "abbc"), ("*.256.%", "users.256.7"), ("ab", "ab")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "a"), ("a", ""), ("a*b", "abc"), ("A*", "abc"), ("a?", "ab")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        let hard = "*a".repeat(60);
        assert!(!matches(&hard, &"a".repeat(59)));
    }

    fn plainly(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, _) => name.is_empty(),
            (Some(('*' | '%', rest)), _) => (0..=name.len()).any(|i| plainly(rest, &name[i..])),
            (Some((a, rest)), Some((b, tail))) => a == b && plainly(rest, tail),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_the_plain_rule_matches(p in "[abä*%]{0,8}", n in "[abä]{0,10}") {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&p, &n), plainly(&chars(&p), &chars(&n)));
        }
    }
}
