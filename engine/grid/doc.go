// Package grid expands the axes of a grid block to the cases of one op.
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
//   - op (string, required): the operation; part of every case id.
//   - perf_table (string): the catalog table that the measured rows belong to.
//   - columns (list of names): the parameters of a case and their order. By
//     default all names that axes, rows and derives bind, in the order of the
//     text, without fields of rows that hold lists or objects. Names that are
//     no columns are helpers: filters may use them, cases do not have them.
//   - constants (object): columns of the perf table with the same value for all
//     cases. They are columns of the case table, but no part of case ids.
//   - loop_order (list of axis and rows names): see Order.
//   - include (list of parts): blocks that stand elsewhere, in a part block with
//     axis, rows, derive, filter and case_set blocks and an include of its own.
//     They count as if they stood in the place of the attribute. case_set, and
//     sweeps with blocks, take include as well.
//   - description (string): for listings. axis, rows, derive, case_set and
//     sweep take one as well.
//
// Blocks:
//
//   - axis "name" { values = [...] }: numbers, strings or bools of one type,
//     and null.
//   - rows "name" { values = [{...}, ...] }: objects with the same fields; all
//     fields of one row become names together. A field may hold anything, lists
//     too; only columns must be numbers, strings or bools. Rows without a row
//     are possible where the list has a type (a variable's), as is an axis
//     without values: there are no cases then.
//   - derive "name" { value = expression }: a further name. Derived values may
//     use each other.
//   - filter "name" { keep = expression, reason = "..." }: a combination is a
//     case only if keep is true in all filters. The reason is what plan and why
//     show.
//   - case_set "name" { ... }: one of several products, with axis, rows, derive
//     and filter blocks and a loop_order of its own. The cases are those of all
//     sets, in the order of the text. What stands directly in the grid belongs
//     to every set. Every set must bind all columns.
//   - distinct { by = [names], prefer = "first" | "min", of = expression }: of
//     the cases with equal by (all columns by default) one stays: the first, or
//     the one with the smallest of (number, text or bool; nulls last; of equals
//     the first). Cases that are equal in all columns count once even without
//     this block.
//   - sweep "name" { values = [...] }: an axis that a runtime walks inside one
//     task. Several make a product. One sweep may hold a whole product instead,
//     with columns, axis, rows, derive, filter, case_set and distinct blocks;
//     its expressions may use all names of the case. Swept values are no part
//     of a case: a case has points, and the points may differ from case to case.
//     Equal points of a case count once.
//
// # Expressions
//
// keep, value and of are HCL expressions. They may use the names that the grid
// binds in the same set, and var, local, system, runtime, module and each.
// Everything else in a grid may use the latter only. In an included part these
// are the values of the module that the part stands in. A name must not be a root
// of the language (var, local, a stage kind, ...) nor a column of every case
// table (case_id, status).
//
// && and || stop as soon as the result is known, so a condition guards what
// follows: limit == null || size < limit. A condition that fails on a
// combination (null in arithmetic, division by zero) is an error only if no
// part of the same filter and no other filter drops the combination. Division
// and remainder by zero are errors, not infinities. Numbers are exact; use
// floor(a / b) for integer division.
//
// Before anything is expanded, all expressions are evaluated with unknown axes.
// Comparing a number with text is an error (sm == "90" is never true), and so
// is arithmetic on text; a literal that is no value of the axis it is compared
// with is a warning.
//
// # Order
//
// Loops nest in this order, the first outermost: rows of the set, rows common
// to all sets, axes of the set, axes common to all sets, each in the order of
// the text. loop_order names the loops that come first instead; the others
// follow in their usual order. A set's own loop_order replaces that of the
// grid. The order decides which of several equal cases is the first, and in
// which order cases are listed; it is no part of case ids.
//
// # Expansion
//
// A filter is split at its top-level &&. Every part is evaluated at the
// outermost loop at which its names are bound, once per distinct values of
// those names, and drops whole subtrees of the loops; parts with &&, ||, ! or
// ?: are also tried as soon as some of their names are bound. So what is
// declared may be much larger than what is kept: Limits bound the latter and
// the work. Values are kept in dictionaries, cases are indices into them.
package grid
