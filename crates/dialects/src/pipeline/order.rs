//! In which order the steps of a list run: as written, but a condition comes behind the last step that it reads.

use std::collections::{BTreeSet, HashMap, HashSet};

use relais_plan::Problem;

use super::Condition;
use super::tree::{Place, Tree};
use crate::reader::Reader;

/// The steps of each list in the order in which they run, and the rank that each step has in its list.
pub(super) struct Order {
    pub lists: Vec<Vec<usize>>,
    pub rank: Vec<usize>,
}

pub(super) fn of(tree: &Tree<'_>, conditions: &HashMap<usize, Condition>, reader: &mut Reader<'_>) -> Order {
    let mut order = Order { lists: Vec::with_capacity(tree.lists.len()), rank: vec![0; tree.items.len()] };
    for (number, list) in tree.lists.iter().enumerate() {
        let steps = match list.place {
            // Children of a parallel step begin together.
            Place::Lanes => list.items.clone(),
            Place::Top | Place::Arm => Queue::new(tree, number, conditions).run(&list.items, reader),
        };
        for (rank, step) in steps.iter().enumerate() {
            order.rank[*step] = rank;
        }
        order.lists.push(steps);
    }
    order
}

/// Steps of one list on their way into the order.
struct Queue<'a> {
    tree: &'a Tree<'a>,
    /// The steps of this list that each of its conditions reads, or reads a part of.
    reads: HashMap<usize, HashSet<usize>>,
    /// Conditions that wait, by what they wait for.
    waiting: HashMap<usize, Vec<usize>>,
    done: HashSet<usize>,
    order: Vec<usize>,
}

impl<'a> Queue<'a> {
    fn new(tree: &'a Tree<'a>, list: usize, conditions: &HashMap<usize, Condition>) -> Queue<'a> {
        let mut reads: HashMap<usize, HashSet<usize>> = HashMap::new();
        for step in &tree.lists[list].items {
            let Some(condition) = conditions.get(step) else { continue };
            let here = |read: &usize| tree.around(*read).find(|around| tree.items[*around].list == list);
            let found = condition.reads.iter().filter_map(here).filter(|read| read != step);
            reads.insert(*step, found.collect());
        }
        Queue { tree, reads, waiting: HashMap::new(), done: HashSet::new(), order: Vec::new() }
    }

    fn run(mut self, written: &[usize], reader: &mut Reader<'_>) -> Vec<usize> {
        for step in written {
            match self.missing(*step) {
                Some(missing) => self.waiting.entry(missing).or_default().push(*step),
                None => self.take(*step),
            }
        }
        let left: Vec<usize> = written.iter().copied().filter(|step| !self.done.contains(step)).collect();
        for step in &left {
            let item = &self.tree.items[*step];
            let message = format!("the condition `{}` and another one wait for each other", item.id);
            let help = "let each condition read only steps that can run before it";
            reader.problems.push(Problem::error(item.span, message).help(help));
        }
        self.order.extend(left);
        self.order
    }

    /// Something that a step reads and that has not run.
    fn missing(&self, step: usize) -> Option<usize> {
        self.reads.get(&step)?.iter().find(|read| !self.done.contains(read)).copied()
    }

    /// Takes a step, and then all that waited for nothing else, in written order.
    fn take(&mut self, step: usize) {
        let mut ready = BTreeSet::from([step]);
        while let Some(step) = ready.pop_first() {
            self.done.insert(step);
            self.order.push(step);
            for waiting in self.waiting.remove(&step).unwrap_or_default() {
                match self.missing(waiting) {
                    Some(missing) => self.waiting.entry(missing).or_default().push(waiting),
                    None => {
                        ready.insert(waiting);
                    }
                }
            }
        }
    }
}
