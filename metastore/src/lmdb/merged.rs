//! What stands in a range of keys, in order: the tree and the layers over it, walked at once.

use std::iter::Peekable;

use smallvec::SmallVec;

use super::log::Entry;

/// Walks a tree and layers, all in the same direction; of several states of a row the youngest stands.
pub(super) struct Merged<T: Iterator, L: Iterator> {
    tree: Peekable<T>,
    /// Youngest first.
    layers: SmallVec<[Peekable<L>; 3]>,
    reverse: bool,
}

impl<T: Iterator, L: Iterator> Merged<T, L> {
    /// Over iterators that descend if `reverse`; layers come youngest first.
    pub fn new(tree: T, layers: impl Iterator<Item = L>, reverse: bool) -> Self {
        Merged { tree: tree.peekable(), layers: layers.map(Iterator::peekable).collect(), reverse }
    }
}

impl<'t, T, L> Iterator for Merged<T, L>
where
    T: Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
    L: Iterator<Item = Entry<'t>>,
{
    type Item = heed::Result<(&'t [u8], &'t [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let in_tree = match self.tree.peek() {
                Some(Ok((key, _))) => Some(*key),
                Some(Err(_)) => return self.tree.next(),
                None => None,
            };
            let in_layers = self.layers.iter_mut().filter_map(|layer| layer.peek()).map(|entry| entry.key);
            let earlier = |a, b| if (b < a) == self.reverse { a } else { b };
            let first = in_tree.into_iter().chain(in_layers).reduce(earlier)?;
            let stored = self.tree.next_if(|row| matches!(row, Ok((key, _)) if *key == first));
            let mut youngest = None;
            for layer in &mut self.layers {
                if let Some(Entry { row, .. }) = layer.next_if(|entry| entry.key == first) {
                    youngest.get_or_insert(row);
                }
            }
            match (youngest, stored) {
                (Some(Some(row)), _) => return Some(Ok((first, row))),
                (Some(None), _) => {}
                (None, stored) => return stored,
            }
        }
    }
}
