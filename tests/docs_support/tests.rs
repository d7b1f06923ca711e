//! Tests of the page parser.

use super::compare::same;
use super::page::{Page, RunMode};
use super::shell::{commands, medley};

const PAGE: &str = "# A page

<!-- where: NAME=web -->
<!-- not run: it needs a cluster -->
```sh
one NAME \\
  --two
```

<!-- before
hidden
-->
Text with `medley
status`.

```console
$ first <<END
> text
> END
answer of NAME
$ second
```

1. In a list:

   ```sh
   # says nothing
   third <<END
   NAMES
   END
   fourth
   ```

```yaml
not: a command
```
";

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn blocks_are_parsed_with_their_directives() {
    let page = Page::read("page.md", PAGE).unwrap();
    let found: Vec<(usize, &RunMode, Vec<&str>)> = page
        .blocks
        .iter()
        .map(|block| {
            let steps = block.steps.iter().map(|step| step.command.as_str());
            (block.line, &block.how, steps.collect())
        })
        .collect();
    let not_run = RunMode::NotRun("it needs a cluster".to_owned());
    assert_eq!(
        found,
        [
            (5, &not_run, vec!["one web \\\n  --two"]),
            (10, &RunMode::Run, vec!["hidden"]),
            (16, &RunMode::Run, vec!["first <<END\ntext\nEND", "second"]),
            (26, &RunMode::Run, vec!["third <<END\nNAMES\nEND", "fourth"]),
        ]
    );
    assert_eq!(page.blocks[2].steps[0].shown, ["answer of web"]);
    assert_eq!(page.spans, ["medley status"]);
}

#[test]
fn malformed_pages_are_rejected() {
    for (text, expected) in [
        ("```sh\nls\n", "line 1: a block does not end"),
        ("<!-- not run:", "line 1: a comment does not end"),
        (
            "<!-- not run -->",
            "line 1: it has to say why it is not run",
        ),
        (
            "<!-- not run: so -->\ntext\n",
            "line 2: the comment before is about no block",
        ),
        (
            "```console\nanswer\n```\n",
            "line 2: output before any command",
        ),
        ("<!-- where: NAME -->\n", "line 1: `NAME` is not NAME=VALUE"),
    ] {
        assert_eq!(Page::read("page.md", text).unwrap_err(), expected);
    }
}

#[test]
fn whole_page_can_be_skipped() {
    let text = "<!-- not run, all of the page: it is written by a program -->\n```sh\nls\n```\n";
    assert!(!Page::read("page.md", text).unwrap().runs());
    assert!(Page::read("page.md", "```sh\nls\n```\n").unwrap().runs());
}

#[test]
fn varying_values_are_masked() {
    for (shown, came) in [
        ("NAME   AGE\nweb    4s", "NAME     AGE\nweb-1    12m"),
        ("sha256:5f0c...", "sha256:00112233445566778899"),
        ("at 127.0.0.1:6443", "at 127.0.0.1:40123"),
        ("Digest e065d9079064", "Digest 1165d9079064"),
        ("since 2026-11-16T05:32:33Z", "since 2027-01-01T00:00:00Z"),
    ] {
        let same = same(&lines(shown), came);
        // A name is not an age.
        assert_eq!(same, !came.contains("web-1"), "{shown}");
    }
    assert!(same(&lines("web 4s"), "web     1h20m\n"));
}

#[test]
fn ellipsis_matches_anything() {
    for (shown, came, expected) in [
        ("a\n...\nz", "a\nb\nc\nz", true),
        ("a\n...\nz", "a\nz", true),
        ("a\n...", "a", true),
        ("a\n...\nz", "a\nb", false),
        ("pod-... is on ...", "pod-x2f is on arm-1", true),
        ("pod-... is on arm", "pod-x2f is on ibm", false),
        ("a", "a\nb", false),
        ("a\nb", "a", false),
        ("  indented", "indented", false),
        ("(all) [of] it", "(all) [of] it", true),
    ] {
        assert_eq!(same(&lines(shown), came), expected, "{shown} / {came}");
    }
}

#[test]
fn command_lines_are_split() {
    for (text, expected) in [
        ("a b  # c", vec![vec!["a", "b"]]),
        ("a 'b c' \"d e\"", vec![vec!["a", "b c", "d e"]]),
        (
            "a | b && c; d",
            vec![vec!["a"], vec!["b"], vec!["c"], vec!["d"]],
        ),
        ("a > file b", vec![vec!["a", "b"]]),
        ("a \\\n  --b", vec![vec!["a", "--b"]]),
        ("x=$(a b) c", vec![vec!["a", "b"], vec!["x=answer", "c"]]),
        ("a $B/c \"$D\"", vec![vec!["a", "answer/c", "answer"]]),
        (
            "eval \"$(a b)\"",
            vec![vec!["a", "b"], vec!["eval", "answer"]],
        ),
    ] {
        assert_eq!(commands(text), expected, "{text}");
    }
}

#[test]
fn medley_is_recognised_under_all_its_names() {
    for (text, expected) in [
        ("medley up", vec![vec!["medley", "up"]]),
        ("kubectl medley plan x", vec![vec!["medley", "plan", "x"]]),
        ("cargo run --release -- up", vec![vec!["medley", "up"]]),
        ("A=b medley up", vec![vec!["medley", "up"]]),
        (
            "until medley status; do sleep 1; done",
            vec![vec!["medley", "status"]],
        ),
        ("kubectl get medley", vec![]),
    ] {
        assert_eq!(medley(text), expected, "{text}");
    }
}
