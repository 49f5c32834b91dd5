//! Who we are among the processes that may work on runs, and which of the others on this host are gone.

use relais_store::Owner;

/// A name for this process that no later one will have: host, process number, its start, and a random part.
pub fn owner() -> Owner {
    let pid = std::process::id();
    let start = start_of(pid).unwrap_or_default();
    format!("{}|{pid}|{start}|{}", host(), uuid::Uuid::new_v4().simple())
}

/// Those of these owners that were processes of this host and have ended.
pub fn dead(owners: &[Owner]) -> Vec<Owner> {
    let here = host();
    owners.iter().filter(|owner| is_dead(owner, &here)).cloned().collect()
}

fn is_dead(owner: &str, here: &str) -> bool {
    let mut parts = owner.split('|');
    let (Some(host), Some(pid), Some(start)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    // Without a process table there is no telling; the lease runs out by itself.
    if host != here || host.is_empty() || start.is_empty() {
        return false;
    }
    start_of(pid).as_deref() != Some(start)
}

/// When a process started, in the kernel's ticks; none if it has ended (or is a zombie) or there is no `/proc`.
fn start_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    // Field 22 of the whole line; the state is field 3.
    let start = fields.nth(18)?.to_owned();
    (!matches!(state, "Z" | "X")).then_some(start)
}

/// This machine since it was started, as the kernel calls it, and the process table that we see of it: two machines may
/// share a name and the number of a table, two containers a machine. Empty where the kernel does not tell.
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let processes = std::fs::read_link("/proc/self/ns/pid").map(|l| l.display().to_string()).unwrap_or_default();
    match boot.trim() {
        "" => String::new(),
        boot => format!("{boot}/{processes}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_ended_one_is_dead() {
        let me = owner();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let gone = format!("{}|{pid}|1|x", host());
        let elsewhere = "other-host|1|1|x".to_owned();
        // Another machine with the same name, or this one before it was started anew.
        let (boot, processes) = host().split_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(boot.len(), 36, "a boot id: {boot}");
        let rebooted = format!("{}/{processes}|{pid}|1|x", uuid::Uuid::new_v4());
        let nowhere = format!("|{pid}|1|x");
        assert_eq!(dead(&[me, gone.clone(), elsewhere, rebooted, nowhere]), vec![gone]);
    }
}
