//! What is counted is told: the list of metrics in `docs/edge.md` is that of the code.

use std::collections::BTreeSet;
use std::path::Path;

const OURS: &str = "nogoo9_proxy_";

/// The names in the code: those that are registered, and those that are read at a scrape.
fn named(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let registered = text
            .split("registry.register(")
            .skip(1)
            .map(str::trim_start);
        names.extend(registered.filter_map(|rest| {
            let (name, _) = rest.strip_prefix('"')?.split_once('"')?;
            Some(name.to_owned())
        }));
        let scraped = text.split("\"nogoo9_proxy_").skip(1);
        names.extend(scraped.filter_map(|rest| {
            let (name, _) = rest.split_once('"')?;
            let plain = name
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            plain.then(|| name.to_owned())
        }));
    }
}

#[test]
fn every_metric_is_in_the_docs_and_no_other() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = BTreeSet::new();
    named(&here.join("src"), &mut names);
    assert!(names.len() > 40, "{names:?}");
    let docs = std::fs::read_to_string(here.join("../docs/edge.md")).unwrap();
    let rows = docs.lines().filter_map(|line| {
        let row = line.strip_prefix("| `")?.strip_prefix(OURS)?;
        let name = row.split(['`', '{']).next()?;
        Some(name.strip_suffix("_total").unwrap_or(name).to_owned())
    });
    assert_eq!(rows.collect::<BTreeSet<_>>(), names);
}
