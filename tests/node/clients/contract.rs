//! The HTTP door against `docs/openapi.json`, by a tester of contracts that others wrote: what the file allows is
//! taken, what it does not is refused, and every answer is as it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::brought;
use crate::operations::{TOKEN, node_with_token};

/// schemathesis with the settings beside this file; what it leaves goes into `folder`.
fn tester(program: &Path, url: &str, folder: &Path) -> Command {
    let house = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let settings = house.join("tests/node/clients/http");
    let mut command = Command::new(program);
    command.arg("--config-file").arg(settings.join("schemathesis.toml"));
    command.arg("run").arg(house.join("docs/openapi.json"));
    command.args(["--url", url, "--header", &format!("Authorization: Bearer {TOKEN}")]);
    command.args(["--max-examples", "30", "--phases", "examples,coverage,fuzzing"]);
    command.args(["--continue-on-failure", "--no-color", "--generation-database", "none"]);
    command.env("SCHEMATHESIS_HOOKS", settings.join("hooks.py"));
    command.current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    command
}

/// Two thousand requests and more, each way: of ASCII alone, where a bound in characters is one in bytes, so that
/// what is refused must be outside the file; and of any text.
#[test]
#[ignore = "needs real clients: scripts/doors"]
fn every_answer_is_as_the_file_says() {
    let Some(program) = brought("venv/bin/schemathesis", "schemathesis") else { return };
    let node = node_with_token();
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("http://{}", node.http());
    for how in [["--generation-codec", "ascii"], ["--exclude-checks", "positive_data_acceptance"]] {
        let output = tester(&program, &url, folder.path()).args(how).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("Tested: 20"), "every operation: {said}");
    }
    let metrics = node.metrics();
    assert!(metrics.sum("rlnode_checks_total", &[("door", "http")]) > 500);
    assert!(metrics.sum("rlnode_operations_total", &[]) > 100);
}
