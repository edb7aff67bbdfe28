// Package grid expands the axes of a grid block into the cases of one op.
//
// # The block
//
//	grid "attention" {
//	  op         = "attention_context"        # required: the operation
//	  perf_table = "context_attention_perf"   # catalog table of the rows
//	  columns    = ["num_heads", "num_key_value_heads", "isl"]
//	  constants  = { beam_width = 1 }         # table columns with one value
//
//	  rows "head" {                           # values that belong together
//	    values = [
//	      { native = 32, kv = 8, tp_sizes = [1, 2, 4, 8] },
//	      { native = 16, kv = 2, tp_sizes = [1, 2] },
//	    ]
//	  }
//	  axis "tp_size" { values = [1, 2, 4, 8] }
//	  axis "isl"     { values = local.lengths }
//
//	  derive "num_heads"           { value = native / tp_size }
//	  derive "num_key_value_heads" { value = ceil_div(kv, tp_size) }
//
//	  filter "tp_declared" {
//	    keep   = contains(tp_sizes, tp_size)
//	    reason = "the model does not run with this tensor parallel size"
//	  }
//
//	  distinct {}
//	}
//
// Attributes:
//
//   - op (string, required): the operation; part of every case ID.
//   - perf_table (string): the catalog table that the measured rows belong to.
//   - columns (list of names): the parameters of a case and their order. The
//     default is all names that axes, rows and derives bind, in source order,
//     except fields of rows with list or object values. Names that are not
//     columns are helpers: filters may use them, but cases do not contain them.
//   - constants (object): columns of the perf table with the same value for all
//     cases. They are columns of the case table, but not part of case IDs.
//   - loop_order (list of axis and rows names): see Order.
//   - include (list of parts): part blocks whose axis, rows, derive, filter and
//     case_set blocks are added at the position of the attribute. A part may
//     include other parts. case_set, and sweeps with blocks, accept include as
//     well.
//   - description (string): for listings. axis, rows, derive, case_set and
//     sweep accept one as well.
//
// Blocks:
//
//   - axis "name" { values = [...] }: numbers, strings or bools of one type,
//     and null.
//   - rows "name" { values = [{...}, ...] }: objects with the same fields; all
//     fields of one row are bound together. A field may have any value,
//     including lists; only columns must be numbers, strings or bools. An empty
//     list of rows is allowed if the list is typed (from a variable), and an
//     axis may be empty; the grid then has no cases.
//   - derive "name" { value = expression }: a computed name. Derived values may
//     use each other.
//   - filter "name" { keep = expression, reason = "..." }: a combination is a
//     case only if keep is true in all filters. The commands plan and why print
//     the reason.
//   - case_set "name" { ... }: one of several products, with axis, rows, derive
//     and filter blocks and an optional loop_order. The grid has the cases of
//     all sets, in source order. Blocks directly in the grid belong to every
//     set. Every set must bind all columns.
//   - distinct { by = [names], prefer = "first" | "min", of = expression }: keep
//     one of the cases with equal values of by (default: all columns): the
//     first, or the one with the smallest value of of (number, text or bool;
//     nulls last; the first of equal ones). Cases that are equal in all columns
//     are kept once even without this block.
//   - sweep "name" { values = [...] }: an axis that a runtime iterates over
//     inside one task. Several sweeps form a product. One sweep may instead
//     contain a whole product with columns, axis, rows, derive, filter, case_set
//     and distinct blocks; its expressions may use all names of the case. Swept
//     values are not parameters of a case: a case has points, and the points may
//     differ between cases. Equal points of a case are kept once.
//
// # Expressions
//
// keep, value and of are HCL expressions. They may use the names that the grid
// binds in the same set, and var, local, system, runtime, module and each.
// All other expressions in a grid may use only the latter. In an included part
// they refer to the module that contains the part. A name must not be a root of
// the language (var, local, a stage kind, ...) or a column of every case table
// (case_id, status).
//
// && and || stop as soon as the result is known, so a condition guards the ones
// after it: limit == null || size < limit. A condition that fails on a
// combination (null in arithmetic, division by zero) is an error only if no
// part of the same filter and no other filter drops the combination. Division
// and remainder by zero are errors, not infinities. Numbers are exact; use
// floor(a / b) for integer division.
//
// Before the expansion, all expressions are evaluated with unknown axes.
// Comparing a number with text is an error (sm == "90" is never true), and so
// is arithmetic on text. Comparing an axis with a literal that is not one of its
// values is a warning.
//
// # Order
//
// Loops nest in this order, the first outermost: rows of the set, rows common
// to all sets, axes of the set, axes common to all sets, each in source order.
// The loops in loop_order come first; the others follow in their default order.
// The loop_order of a case_set replaces that of the grid. The order determines
// which of several equal cases is the first, and in which order cases are
// listed. It is not part of case IDs.
//
// # Expansion
//
// A filter is split at its top-level &&. Every part is evaluated at the
// outermost loop at which its names are bound, once per distinct values of
// those names, and drops whole subtrees of the loops. Parts with &&, ||, ! or
// ?: are also evaluated when only some of their names are bound. The number of
// declared combinations may therefore be much larger than the number of kept
// ones: Limits bound the kept combinations and the work. Values are stored in
// dictionaries, and cases are indices into them.
package grid
