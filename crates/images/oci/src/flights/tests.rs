use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::*;

fn counting(count: &Arc<AtomicUsize>) -> impl FnOnce() -> BoxFuture<'static, usize> + use<> {
    let count = Arc::clone(count);
    move || {
        async move {
            sleep(Duration::from_millis(20)).await;
            count.fetch_add(1, Ordering::SeqCst)
        }
        .boxed()
    }
}

#[tokio::test]
async fn concurrent_equal_requests_are_sent_once() {
    let flights = Flights::default();
    let count = Arc::new(AtomicUsize::new(0));
    let both = futures::join!(
        flights.join("a", counting(&count)),
        flights.join("a", counting(&count))
    );
    assert_eq!(both, (0, 0));
    // A later caller starts a new request.
    assert_eq!(flights.join("a", counting(&count)).await, 1);
    let others = futures::join!(
        flights.join("a", counting(&count)),
        flights.join("b", counting(&count))
    );
    assert_ne!(others.0, others.1);
}

#[tokio::test]
async fn remaining_waiter_gets_the_result() {
    let flights = Flights::default();
    let count = Arc::new(AtomicUsize::new(0));
    let mut first = Box::pin(flights.join("a", counting(&count)));
    let mut second = Box::pin(flights.join("a", counting(&count)));
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    assert_eq!(second.await, 0);
    // When all waiters are gone, the request is cancelled.
    let mut gone = Box::pin(flights.join("a", counting(&count)));
    assert!(futures::poll!(&mut gone).is_pending());
    drop(gone);
    assert_eq!(flights.join("a", counting(&count)).await, 1);
}
