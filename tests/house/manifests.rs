//! Rules about manifests and the lock file: who may import whom, and where crates come from.

use toml::{Table, Value};

use crate::tree::Tree;
use crate::{Findings, assert_finds, assert_holds};

/// Every package of ours, and the packages of ours that it may import.
const MAY_IMPORT: [(&str, &[&str]); 11] = [
    ("rlnode-limiter", &[]),
    ("rlnode-wire", &["rlnode-limiter"]),
    ("rlnode-client", &["rlnode-limiter", "rlnode-wire"]),
    ("rlnode-cluster", &["rlnode-limiter", "rlnode-wire"]),
    ("rlnode-member", &["rlnode-limiter", "rlnode-wire", "rlnode-cluster"]),
    ("rlnode-sim", &["rlnode-limiter", "rlnode-wire", "rlnode-cluster"]),
    ("rlnode-relay", &[]),
    (
        "rlnode",
        &[
            "rlnode-limiter",
            "rlnode-wire",
            "rlnode-client",
            "rlnode-cluster",
            "rlnode-member",
            "rlnode-relay",
            // For `rlnode compare`; a node that serves has no part of it.
            "rlnode-sim",
        ],
    ),
    (
        "rlbench",
        &[
            "rlnode-limiter",
            "rlnode-wire",
            "rlnode-client",
            "rlnode-cluster",
            "rlnode-member",
            "rlnode-relay",
            "rlnode-sim",
        ],
    ),
    // Another limiter behind our frame, and nothing of ours that decides.
    ("rlbench-rateguard", &["rlnode-limiter", "rlnode-wire"]),
    // Like the other tests, the fuzz targets reach into the daemon.
    ("rlnode-fuzz", &["rlnode-limiter", "rlnode-wire", "rlnode-client", "rlnode"]),
];

/// Packages of others that only some of ours may import. A name stands for its family too:
/// `tokio` is also `tokio-util`.
const CONFINED: [(&str, &[&str]); 11] = [
    // Codecs of wire formats stay where bytes become types.
    ("bincode", &["rlnode-wire"]),
    ("wincode", &["rlnode-wire"]),
    ("tokio", &["rlnode-client", "rlnode-member", "rlnode", "rlbench", "rlbench-rateguard"]),
    ("axum", &["rlnode", "rlbench", "rlnode-fuzz"]),
    ("tonic", &["rlnode", "rlbench"]),
    ("clap", &["rlnode", "rlbench", "rlbench-rateguard"]),
    ("ratatui", &["rlnode"]),
    ("foca", &["rlnode-member"]),
    ("quinn", &["rlnode-member"]),
    // For `rlnode import`; a node that serves reads no YAML.
    ("saphyr", &["rlnode"]),
    ("rustls", &["rlnode-member"]),
];

/// The fuzz targets are a workspace of their own: the macro that makes a target needs `unsafe`.
const FUZZ_MANIFEST: &str = "tests/fuzz/Cargo.toml";

/// Workspaces of their own, which the table of versions does not reach.
const APART: [&str; 2] = [FUZZ_MANIFEST, "bench/rateguard/Cargo.toml"];

/// The one place that crates come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// One line of a dependency table.
struct Dependency<'t> {
    /// The package that it names, whatever it is called in the code.
    package: &'t str,
    /// The package is ours: it has a path, not a version.
    is_ours: bool,
    /// What the manifest says.
    written: &'t Value,
}

/// A manifest, parsed.
struct Manifest<'t> {
    path: &'t str,
    table: Table,
}

impl Manifest<'_> {
    fn package(&self) -> &str {
        text_at(&self.table, &["package", "name"]).unwrap_or("")
    }

    /// Every dependency: plain, for tests, for builds, for one platform.
    fn dependencies<'t>(&'t self, workspace: Option<&'t Table>) -> Vec<Dependency<'t>> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let per_target = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        std::iter::once(&self.table)
            .chain(per_target)
            .flat_map(|table| {
                ["dependencies", "dev-dependencies", "build-dependencies"]
                    .into_iter()
                    .filter_map(|kind| table.get(kind)?.as_table())
            })
            .flatten()
            .map(|(name, written)| dependency(name, written, workspace))
            .collect()
    }
}

fn dependency<'t>(
    name: &'t str,
    written: &'t Value,
    workspace: Option<&'t Table>,
) -> Dependency<'t> {
    let inherited = workspace.filter(|_| is_inherited(written)).and_then(|table| table.get(name));
    let meant = inherited.unwrap_or(written);
    Dependency {
        package: meant.get("package").and_then(Value::as_str).unwrap_or(name),
        is_ours: meant.get("path").is_some(),
        written,
    }
}

fn is_inherited(written: &Value) -> bool {
    written.get("workspace").and_then(Value::as_bool) == Some(true)
}

fn text_at<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t str> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))?.as_str()
}

/// Every manifest, the workspace's first.
fn manifests(tree: &Tree) -> Vec<Manifest<'_>> {
    let mut all: Vec<_> = tree
        .ending_in(&["Cargo.toml"])
        .map(|(path, text)| {
            let table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            Manifest { path, table }
        })
        .collect();
    all.sort_by_key(|manifest| manifest.path != "Cargo.toml");
    all
}

/// The table of versions that members inherit from.
fn versions<'t>(manifests: &'t [Manifest<'_>]) -> Option<&'t Table> {
    manifests.first()?.table.get("workspace")?.get("dependencies")?.as_table()
}

/// Imports among our packages follow [`MAY_IMPORT`].
fn imports_point_one_way(tree: &Tree) -> Findings {
    let manifests = manifests(tree);
    let versions = versions(&manifests);
    let mut findings = Findings::new();
    for manifest in &manifests {
        let importer = manifest.package();
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == importer) else {
            findings.push(format!("{}: give `{importer}` its place in MAY_IMPORT", manifest.path));
            continue;
        };
        for imported in manifest.dependencies(versions).iter().filter(|d| d.is_ours) {
            if !allowed.contains(&imported.package) {
                let package = imported.package;
                findings.push(format!("{}: `{importer}` imports `{package}`", manifest.path));
            }
        }
    }
    findings
}

/// Runtimes, transports and front ends stay in the crates of [`CONFINED`].
fn runtimes_stay_at_the_edge(tree: &Tree) -> Findings {
    let manifests = manifests(tree);
    let versions = versions(&manifests);
    let mut findings = Findings::new();
    for manifest in &manifests {
        for dependency in manifest.dependencies(versions) {
            let confined = CONFINED.iter().find(|(name, _)| is_of_family(dependency.package, name));
            if confined.is_some_and(|(_, allowed)| !allowed.contains(&manifest.package())) {
                let (importer, package) = (manifest.package(), dependency.package);
                findings.push(format!("{}: `{importer}` imports `{package}`", manifest.path));
            }
        }
    }
    findings
}

fn is_of_family(package: &str, name: &str) -> bool {
    package.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// Members take every version from the workspace's table, and no version is open.
fn versions_are_bounded_and_stand_in_one_place(tree: &Tree) -> Findings {
    let manifests = manifests(tree);
    let mut findings = Findings::new();
    for (name, written) in versions(&manifests).into_iter().flatten() {
        findings.extend(open_version("Cargo.toml", name, written));
    }
    for manifest in &manifests {
        for dependency in manifest.dependencies(None) {
            let (path, package, written) = (manifest.path, dependency.package, dependency.written);
            if is_inherited(written) {
                continue;
            }
            findings.extend(open_version(path, package, written));
            if !APART.contains(&path) {
                findings.push(format!("{path}: say `{package}.workspace = true`"));
            }
        }
    }
    findings
}

fn open_version(path: &str, name: &str, written: &Value) -> Option<String> {
    let version = written.as_str().or_else(|| written.get("version")?.as_str());
    let is_open = match version {
        Some(version) => version.contains('*') || version.trim_start().starts_with('>'),
        None => written.get("path").is_none(),
    };
    is_open.then(|| format!("{path}: give `{name}` a version with an upper end"))
}

/// Members take their lints from the workspace, which forbids `unsafe`; a workspace of its own has the
/// same.
fn lints_are_the_workspaces(tree: &Tree) -> Findings {
    let manifests = manifests(tree);
    let root = manifests.first().map(|manifest| &manifest.table);
    let lints_of = |table: &Table| table.get("workspace")?.get("lints").cloned();
    let mut findings = Findings::new();
    for manifest in manifests.iter().filter(|manifest| manifest.path != FUZZ_MANIFEST) {
        let inherits = manifest.table.get("lints").is_some_and(is_inherited);
        if !inherits {
            findings.push(format!("{}: say `lints.workspace = true`", manifest.path));
        }
        let is_apart = manifest.table.contains_key("workspace");
        if is_apart && lints_of(&manifest.table) != root.and_then(lints_of) {
            findings.push(format!("{}: has lints that are not the root's", manifest.path));
        }
    }
    let unsafe_code = ["workspace", "lints", "rust", "unsafe_code"];
    if root.and_then(|table| text_at(table, &unsafe_code)) != Some("forbid") {
        findings.push("Cargo.toml: say `unsafe_code = \"forbid\"` for the workspace".into());
    }
    findings
}

/// Crates come from crates.io, and no manifest, lock file or cargo setting names another host.
fn crates_come_from_crates_io(tree: &Tree) -> Findings {
    let mut findings = Findings::new();
    let places = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".cargo/config"];
    for (path, text) in tree.ending_in(&places) {
        for (number, line) in (1..).zip(text.lines()) {
            if line.contains("://") && !line.contains(&format!("\"{CRATES_IO}\"")) {
                findings.push(format!("{path}:{number}: names a host: {line}"));
            }
        }
    }
    for manifest in manifests(tree) {
        let tables = versions(std::slice::from_ref(&manifest)).into_iter().flatten();
        let own = manifest.dependencies(None);
        let written = tables
            .map(|(name, value)| (name.as_str(), value))
            .chain(own.iter().map(|dependency| (dependency.package, dependency.written)));
        for (name, value) in written {
            if ["git", "registry", "registry-index"].iter().any(|key| value.get(key).is_some()) {
                findings.push(format!("{}: take `{name}` from crates.io", manifest.path));
            }
        }
    }
    findings
}

#[test]
fn our_packages_import_each_other_one_way() {
    assert_holds(imports_point_one_way);
}

#[test]
fn finds_an_import_against_the_direction() {
    let root = "[workspace.dependencies]\nclient = { path = 'c', package = 'rlnode-client' }\n\
                [package]\nname = 'rlnode'\n[dependencies]\nclient.workspace = true";
    let wire = "[package]\nname = 'rlnode-wire'\n[dev-dependencies]\nclient.workspace = true";
    let limiter = "[package]\nname = 'rlnode-limiter'\n[target.'cfg(unix)'.dependencies]\n\
                   rlnode = { path = '../..' }";
    let stranger = "[package]\nname = 'rlnode-helper'";
    assert_finds(
        imports_point_one_way,
        &[
            ("Cargo.toml", root),
            ("crates/limiter/Cargo.toml", limiter),
            ("crates/stranger/Cargo.toml", stranger),
            ("crates/wire/Cargo.toml", wire),
        ],
        &["imports `rlnode`", "place in MAY_IMPORT", "imports `rlnode-client`"],
    );
}

#[test]
fn runtimes_and_transports_stay_at_the_edge() {
    assert_holds(runtimes_stay_at_the_edge);
}

#[test]
fn finds_a_runtime_in_the_logic() {
    let wire = "[package]\nname = 'rlnode-wire'\n[dependencies]\ntokio-util = '1'\ntokyo = '1'";
    let limiter = "[package]\nname = 'rlnode-limiter'\n[dependencies]\n\
                   rt = { package = 'tokio', version = '1' }";
    let daemon = "[package]\nname = 'rlnode'\n[dependencies]\ntokio = '1'\nrustls = '1'";
    assert_finds(
        runtimes_stay_at_the_edge,
        &[("Cargo.toml", daemon), ("a/Cargo.toml", limiter), ("b/Cargo.toml", wire)],
        &["imports `rustls`", "imports `tokio`", "imports `tokio-util`"],
    );
}

#[test]
fn every_version_is_bounded_and_stands_in_the_workspace() {
    assert_holds(versions_are_bounded_and_stand_in_one_place);
}

#[test]
fn finds_an_open_version_and_one_outside_the_workspace() {
    let root = "[workspace.dependencies]\na = '1.*'\nb = { features = [] }\nc = '1.2.3'\n\
                [dependencies]\nc.workspace = true";
    assert_finds(
        versions_are_bounded_and_stand_in_one_place,
        &[
            ("Cargo.toml", root),
            ("crates/x/Cargo.toml", "[dependencies]\nd = '4'"),
            ("crates/y/Cargo.toml", "[workspace]\n[dependencies]\ng = '7'"),
            (FUZZ_MANIFEST, "[dependencies]\ne = '>=5'\nf = '6'"),
        ],
        &["give `a`", "give `b`", "`d.workspace = true`", "`g.workspace = true`", "give `e`"],
    );
}

#[test]
fn every_crate_has_the_workspaces_lints() {
    assert_holds(lints_are_the_workspaces);
}

#[test]
fn finds_a_crate_with_lints_of_its_own() {
    let root = "[workspace.lints.rust]\nunsafe_code = 'warn'\n[lints]\nworkspace = true";
    assert_finds(
        lints_are_the_workspaces,
        &[
            ("Cargo.toml", root),
            ("bench/x/Cargo.toml", "[workspace.lints.rust]\n[lints]\nworkspace = true"),
            ("crates/x/Cargo.toml", "[lints.rust]\nunsafe_code = 'forbid'"),
            (FUZZ_MANIFEST, "[workspace]"),
        ],
        &["bench/x/Cargo.toml", "crates/x/Cargo.toml", "unsafe_code"],
    );
}

#[test]
fn every_crate_comes_from_crates_io() {
    assert_holds(crates_come_from_crates_io);
}

#[test]
fn finds_a_crate_from_elsewhere() {
    let lock = format!("source = \"{CRATES_IO}\"\nsource = \"git+https://example.org/x\"");
    assert_finds(
        crates_come_from_crates_io,
        &[
            ("Cargo.lock", &lock),
            ("Cargo.toml", "[workspace.dependencies]\na = { version = '1', registry = 'mine' }"),
            ("tests/fuzz/.cargo/config.toml", "[source.x]\nregistry = 'sparse+https://x/'"),
            ("x/Cargo.toml", "[dependencies]\nb = { git = 'ssh://example.org/b' }"),
        ],
        &["Cargo.lock:2", "config.toml:2", "x/Cargo.toml:2", "take `a`", "take `b`"],
    );
}
