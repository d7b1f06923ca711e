//! Examples for the help of every command.
//!
//! They are kept here, and not beside the arguments, so that a test can check that the parser
//! accepts each of them.

use clap::Command;

/// Paths of commands without the program name, each followed by its examples, indented.
const EXAMPLES: &str = r"
up
  medley up
  medley up --memory --speed 100
  medley up --from cluster.gz
run
  medley run
  medley run --controllers governance,images-hco,images-ssp,images-cdi,images-vm
console
  medley console
  medley console --listen 127.0.0.1:8080
cri
  medley cri
  medley cri --backend unix:///run/containerd/containerd.sock
node-config containerd
  medley node-config containerd
  medley node-config containerd --build 10.0.17763 --build 10.0.20348
webhook
  medley webhook --register service=medley-system/medley-webhook
  medley webhook --tls-cert tls.crt --tls-key tls.key
manifests
  medley manifests | kubectl apply --server-side -f -
  medley manifests --controllers governance,placement --monitoring --console
  medley manifests --only crds,rbac
  medley manifests --openshift --monitoring --console --console-host medley.apps.example.com
check
  medley check --pre
  medley check
  medley check --namespace medley -o json
uninstall
  medley uninstall
  medley uninstall --fix-cpu-models --yes
  medley uninstall --delete-crds --export medley.jsonl --yes
status
  medley status
  medley status images cpu --all
  medley status --gate -o json
gather
  medley gather
  medley gather --to ticket-4711.tar.gz --since 2h
  medley gather --dest-dir /must-gather --timeout 5m
  oc adm must-gather --image ghcr.io/medley-dev/medley-must-gather:0.1.0
fleet list
  medley fleet list
fleet add
  medley fleet add --like arm-0 arm-9
  medley fleet add --arch arm64 --count 3 edge
fleet remove
  medley fleet remove arm-9
fleet cordon
  medley fleet cordon arm-0 arm-1
fleet uncordon
  medley fleet uncordon arm-0 arm-1
fleet drain
  medley fleet drain arm-0 --timeout 60
fleet fail
  medley fleet fail arm-0
fleet recover
  medley fleet recover arm-0
fleet degrade
  medley fleet degrade arm-0 --message 'no space left'
fleet pause
  medley fleet pause worker
fleet resume
  medley fleet resume worker
fleet publish
  medley fleet publish fedora
  medley fleet publish fedora --arch arm64
plan
  medley plan
  medley plan load-aware-rebalancing -o wide
  medley plan --profile virt-higher-density
  medley plan --profile virt-higher-density --offline -f cluster.gz
  medley plan --offline -f cluster.gz -o markdown > comment.md
diff
  medley diff load-aware-rebalancing
  medley diff -o name || echo something would change
approve
  medley approve load-aware-rebalancing
  medley approve load-aware-rebalancing --digest sha256:5f0c1a2b3c4d --yes
  medley approve load-aware-rebalancing --items enable-psi-metrics --take-over
reject
  medley reject load-aware-rebalancing --reason 'not before the freeze ends'
rollback
  medley rollback load-aware-rebalancing --to 3
  medley rollback load-aware-rebalancing --clear
history
  medley history
  medley history load-aware-rebalancing --revision 3
audit export
  medley audit export > audit.jsonl
  medley audit export --from 120 >> audit.jsonl
audit verify
  medley audit verify
  medley audit verify -f audit.jsonl
adopt
  medley adopt load-aware-rebalancing
  medley adopt load-aware-rebalancing --path spec.mode --yes
explain
  medley explain load-aware-rebalancing
  medley explain load-aware-rebalancing -o json
eject
  medley eject load-aware-rebalancing | kubectl apply -f -
  medley eject --all -d manifests
profile lint
  medley profile lint profile.yaml
  medley profile lint docker://quay.io/example/tuning:v1
profile test
  medley profile test profile.yaml --cases cases.yaml
profile render
  medley profile render profile.yaml --options '{size: 3}'
  medley profile render profile.yaml --from objects.yaml
  medley profile render profile.yaml --rbac | kubectl apply -f -
profile pack
  medley profile pack profile.yaml --to tuning
image inspect
  medley image inspect quay.io/containerdisks/fedora:43
  medley image inspect oci-archive:fedora.tar -o json
images
  medley images
  medley images -A -o wide
  medley images pin fedora --arch arm64
images explain
  medley images explain fedora --arch arm64
images pin
  medley images pin fedora
  medley images pin fedora --arch arm64 --to 5f0c1a --reason 'boots'
images unpin
  medley images unpin fedora
images rollback
  medley images rollback fedora --arch arm64 --dry-run=server
images refresh
  medley images refresh fedora
images coverage
  medley images coverage
  medley images coverage -o json
images verify
  medley images verify
  medley images verify fedora --arch arm64 --contents
images take-over
  medley images take-over images-cdi --dry-run
  medley images take-over images-ssp images-cdi --yes
images hand-back
  medley images hand-back images-cdi
images import
  medley images import docker://quay.io/containerdisks/fedora:43 --arch arm64 --to fedora.img
cpu
  medley cpu
  medley cpu -o wide
  medley cpu vms -A --stranded
cpu explain
  medley cpu explain web-0
  medley cpu explain -f vm.yaml --node rome-1
cpu vms
  medley cpu vms
  medley cpu vms -A --stale -o name
cpu what-if
  medley cpu what-if --remove-node rome-1
  medley cpu what-if --add-node new.yaml --policy policy.yaml -o wide
place explain
  medley place explain web-0
  medley place explain -f deployment.yaml -o yaml
place report
  medley place report
  medley place report -n shop -o json
place release
  medley place release --all --dry-run
  medley place release web-0 web-1 -n shop
  medley place release --all --yes
place take-over
  medley place take-over --dry-run
  medley place take-over shop bank
place hand-back
  medley place hand-back --dry-run
  medley place hand-back --yes
release status
  medley release status
  medley release status --release quay.io/x/release:4.18.0-multi --details operators
  medley release status --release release -o json
  until medley release status --release release --gate workers; do sleep 60; done
release explain
  medley release explain machine-config
  medley release explain dns --release quay.io/x/release:4.18.0-multi -o yaml
release preflight
  medley release preflight quay.io/x/release:4.18.0-multi --arch arm64,s390x
  medley release preflight release --arch arm64 --except machine-os-images -o json
release migrate
  medley release migrate --to-multi-arch
  medley release migrate --to-multi-arch --dry-run=server
release verify
  medley release verify
  medley release verify --arch s390x --node-timeout 30m -o json
release report
  RELEASE_VERSION=4.18.0 OPERATOR_IMAGE=quay.io/x/y@sha256:... \
    medley release report --operator dns --namespace openshift-dns-operator --deployment dns-operator
  medley release report --operator ingress --deployment ingress-operator --operand router --once -o json
release lint
  medley release lint release
  medley release lint --strict -o json quay.io/x/release:4.18.0-multi
release render
  medley release render --operators operators --images images.yaml --name 4.18.0 -o release
  medley release render --operators operators --images images.yaml --name 4.18.0 --multi-arch -o release
release mirror
  medley release mirror release --to mirror.example/ocp/release -o mirrored
  medley release mirror quay.io/x/release:4.18.0-multi --to-registry mirror.example:5000 -o mirrored
importer
  medley importer --image docker://quay.io/containerdisks/fedora:43 --arch arm64 --to /dev/vdb
snapshot
  medley snapshot -o cluster.gz
apiserver
  medley apiserver --memory
  medley apiserver --data ./cluster --listen 127.0.0.1:0
envtest
  medley envtest ./assets
version
  medley version
  medley version -o json
completion
  source <(medley completion bash)
  medley completion fish > ~/.config/fish/completions/medley.fish
man
  medley man | man -l -
  medley man --to /usr/local/share/man/man1
";

/// The path of each command, and its examples.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    // A path begins a line, and its examples are indented.
    let mut rest = EXAMPLES.trim_start();
    std::iter::from_fn(move || {
        let (path, after) = rest.split_once('\n')?;
        let lines = after.split_inclusive('\n');
        let length = lines.take_while(|line| line.starts_with(' ')).map(str::len);
        let (lines, next) = after.split_at(length.sum());
        rest = next;
        Some((path, lines.trim_end()))
    })
}

/// The clap command with the examples added.
pub(crate) fn add(command: Command) -> Command {
    examples().fold(command, |command, (path, lines)| {
        let words: Vec<&str> = path.split(' ').collect();
        add_to(command, &words, lines)
    })
}

fn add_to(command: Command, path: &[&str], lines: &str) -> Command {
    match path.split_first() {
        None => command.after_help(format!("Examples:\n{lines}")),
        Some((first, rest)) if command.find_subcommand(first).is_some() => {
            command.mut_subcommand(first, |it| add_to(it, rest, lines))
        }
        // Builds without the lab do not have its commands. A test reports paths that do not exist.
        Some(_) => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command without subcommands, by path.
    fn leaves<'a>(command: &'a Command, path: &str, found: &mut Vec<(String, &'a Command)>) {
        for child in command.get_subcommands() {
            if child.is_hide_set() || child.get_name() == "help" {
                continue;
            }
            let path = format!("{path} {}", child.get_name()).trim().to_owned();
            if child.is_subcommand_required_set() {
                leaves(child, &path, found);
                continue;
            }
            leaves(child, &path, found);
            found.push((path, child));
        }
    }

    #[test]
    fn every_command_has_examples() {
        let command = crate::command("medley");
        let mut all = Vec::new();
        leaves(&command, "", &mut all);
        let without = all.iter().filter(|(_, it)| {
            let after = it.get_after_help().map(ToString::to_string);
            !after.is_some_and(|it| it.starts_with("Examples:\n  "))
        });
        let without: Vec<&str> = without.map(|(path, _)| path.as_str()).collect();
        assert!(without.is_empty(), "commands without examples: {without:?}");
        for (path, _) in examples() {
            assert!(all.iter().any(|(it, _)| it == path), "there is no {path}");
        }
    }

    #[test]
    fn every_example_is_accepted() {
        let command = crate::command("medley");
        let mut all = Vec::new();
        leaves(&command, "", &mut all);
        for (path, command_of) in &all {
            let after = command_of
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for line in after.lines().skip(1) {
                let Some(words) = words(line) else {
                    continue;
                };
                let parsed = crate::command("medley").try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{path}: {line}: {}", parsed.unwrap_err());
            }
        }
    }

    /// The arguments that a shell would call this program with; `None` if the line runs another
    /// program.
    fn words(line: &str) -> Option<Vec<String>> {
        let from = line
            .find("medley ")
            .filter(|at| !line[..*at].contains("oc adm"))?;
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line[from..].chars() {
            match c {
                '\'' => quoted = !quoted,
                '|' | ';' | ')' | '>' if !quoted => break,
                ' ' if !quoted => words.push(String::new()),
                c => words.last_mut()?.push(c),
            }
        }
        words.retain(|it| !it.is_empty());
        Some(words)
    }
}
