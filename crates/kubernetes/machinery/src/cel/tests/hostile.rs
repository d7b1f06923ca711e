//! Expressions that mean harm end with an error, soon.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{eval, eval_with};

fn soon(source: &str) -> Result<serde_json::Value, String> {
    let start = Instant::now();
    let result = eval(source);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{} took too long",
        &source[..40]
    );
    result
}

#[test]
fn deep_nesting_is_rejected() {
    for (open, middle, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{1:", "1", "}"),
        ("!(", "true", ")"),
        ("size([", "1", "])"),
        ("", "x", ".a"),
        ("", "x", "[0]"),
        ("1+", "1", ""),
        ("true?1:", "1", ""),
        ("[1].map(x,", "x", ")"),
    ] {
        let source = format!("{}{middle}{}", open.repeat(20_000), close.repeat(20_000));
        let source = source.chars().take(90_000).collect::<String>();
        assert!(soon(&source).is_err(), "{open}{middle}{close}");
    }
    // Long is fine where it is not deep.
    let flat = vec!["1 == 1"; 5_000].join(" && ");
    assert_eq!(soon(&flat), Ok(json!(true)));
    assert!(soon(&"1".repeat(200_000)).is_err());
}

#[test]
fn the_deepest_accepted_tree_fits_a_small_stack() {
    let run = || {
        let depth = 95;
        let sources = [
            format!("{}1{}", "(".repeat(depth), ")".repeat(depth)),
            format!("dyn({}1{}) == 1", "[".repeat(depth), "]".repeat(depth)),
            format!("{}1", "1+".repeat(depth)),
            format!("{}1{}", "[1].map(x, ".repeat(depth), ")".repeat(depth)),
        ];
        for source in sources {
            eval(&source).expect(&source);
        }
    };
    // Half of what a worker thread has.
    let thread = std::thread::Builder::new()
        .stack_size(1024 * 1024)
        .spawn(run)
        .expect("thread");
    thread.join().expect("no overflow");
}

#[test]
fn growth_ends_at_the_budget() {
    let doubling = |step: &str, times: usize| {
        format!(
            "[{}].exists(x, x == x && false)",
            "'aaaaaaaaaa'".to_owned() + &step.repeat(times)
        )
    };
    let strings = format!("['aaaaaaaaaa']{}.size() == 0", ".map(x, x + x)".repeat(60));
    let lists = format!("[[1]]{}.size() == 0", ".map(x, x + x)".repeat(60));
    let replaced = format!(
        "{}.size() == 0",
        "'aaaaaaaaaa'".to_owned() + &".replace('a', 'aaaaaaaaaa')".repeat(40)
    );
    let formatted = format!(
        "['a']{}.size() == 0",
        ".map(x, '%s%s%s%s'.format([x, x, x, x]))".repeat(40)
    );
    for source in [
        strings,
        lists,
        replaced,
        formatted,
        doubling(".replace('', 'aaaaaaaaaa')", 30),
        "lists.range(9000000000).size() == 0".to_owned(),
        "lists.range(100000).map(a, lists.range(100000)).size() == 0".to_owned(),
        "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))"
            .to_owned(),
        "lists.range(3000).sort().size() == 0".to_owned(),
        "lists.range(90000).distinct().size() == 0".to_owned(),
    ] {
        assert_eq!(soon(&source), Err("budget".to_owned()), "{}", &source[..40]);
    }
}

#[test]
fn large_values_do_not_make_cheap_calls_dear() {
    let x = json!({"s": "a".repeat(3_000_000), "l": (0..1000).collect::<Vec<i32>>()});
    for source in [
        "x.l.all(i, size(x.s) > 0)",
        "x.l.all(i, x.s.matches('(a|b|ab)*c$'))",
        "x.l.all(i, x.s.find('(x+x+)+y') == '')",
        "x.l.all(i, x.s == x.s)",
        "x.l.all(i, x == x)",
    ] {
        let start = Instant::now();
        assert_eq!(eval_with(source, &x), Err("budget".to_owned()), "{source}");
        assert!(start.elapsed() < Duration::from_secs(20), "{source}");
    }
}

#[test]
fn regular_expressions_are_bounded_in_size() {
    for source in [
        "'a'.matches('((a{100}){100}){100}')",
        "'a'.matches('(((((a{30}){30}){30}){30}){30})')",
    ] {
        assert!(soon(source).is_err(), "{source}");
    }
    let deep = format!("'a'.matches('{}a{}')", "(".repeat(5_000), ")".repeat(5_000));
    assert!(soon(&deep).is_err());
}
