//! Slow start of batch operations.

use futures::future::join_all;

/// Runs `count` attempts in batches of 1, 2, 4 and so on, until a batch has a failure, so that
/// requests that are bound to fail are not repeated hundreds of times (kube-controller-manager's
/// slow start). Returns the results and the first failure.
pub(crate) async fn slow_start<T, E, Attempt>(
    count: usize,
    mut attempt: impl FnMut(usize) -> Attempt,
) -> (Vec<T>, Option<E>)
where
    Attempt: Future<Output = Result<T, E>>,
{
    let mut done = Vec::new();
    let (mut begun, mut size) = (0, 1);
    while begun < count {
        let end = count.min(begun + size);
        let results = join_all((begun..end).map(&mut attempt)).await;
        let mut failure = None;
        for result in results {
            match result {
                Ok(value) => done.push(value),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if failure.is_some() {
            return (done, failure);
        }
        begun = end;
        size *= 2;
    }
    (done, None)
}
