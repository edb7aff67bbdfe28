package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"aicplan/cudaops/worker"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/runtimes"
)

// unmeasurable returns an error if it is known without starting a worker that the runtime cannot measure
// the cases.
func (c *Config) unmeasurable(cases *grid.Cases, planDir string) error {
	if err := c.opUnknown(cases); err != nil {
		return err
	}
	if err := c.optionRefuses(cases); err != nil {
		return err
	}
	if len(c.runtime.Launcher) > 0 {
		return nil // the launcher may use a different file system
	}

	for _, p := range runtimes.Paths(c.runtime, planDir) {
		err := unix.Access(p, unix.R_OK)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("path of %s names %s, which is not there", c.runtime.Address, p)
		}
		if err != nil {
			return fmt.Errorf("path of %s: %w", c.runtime.Address, fileutil.Explain("read", p, err))
		}
	}

	return c.functionUnknown(cases, planDir)
}

// optionRefuses returns an error if a column that replaces an option of the runtime has a value that the option does
// not accept. Cases are recorded, and such a value may be a URL with a secret.
func (c *Config) optionRefuses(cases *grid.Cases) error {
	about := c.kind()
	if about.Check == nil {
		return nil // only kinds that check cases have such columns
	}

	for at, name := range cases.Columns() {
		o := about.Option(name)
		for i := 0; o != nil && o.Check != nil && i < cases.Len(); i++ {
			if err := o.CheckTexts(cases.Value(i, at)); err != nil {
				return fmt.Errorf("column %s of %s: %w", name, c.grid.Address, err)
			}
		}
	}
	return nil
}

// functionUnknown returns an error if no file of the runtime's path has the function that workers would
// call. The files are parsed and not run.
func (c *Config) functionUnknown(cases *grid.Cases, planDir string) error {
	if !c.kind().NamesOps || c.bind != nil {
		return nil
	}

	name := c.opName(cases.Spec.Op)
	have, found := runtimes.OpFunctions(c.runtime, planDir, name)
	if found {
		return nil
	}

	files := strings.Join(c.runtime.Path, ", ")
	if files == "" {
		return fmt.Errorf(
			"op %q needs a Python function, and %s names no file with \"path\"; name it, or bind the op to a collector",
			name,
			c.runtime.Address,
		)
	}

	known := "there is none"
	if len(have) > 0 {
		known = "there is " + strings.Join(have, ", ")
	}

	return fmt.Errorf("%s of %s has no function %s that takes bench.%s In these files %s", files,
		c.runtime.Address, name, textutil.DidYouMean(name, have), known)
}

// checkOf returns the function that checks cases as workers do, or nil if the kind has none or a value is not known
// yet.
func (c *Config) checkOf(planDir string) (func(worker.Case) error, error) {
	about := c.kind()
	switch {
	case c.bind != nil && about.CheckBinding != nil:
		raw, err := json.Marshal(c.bind)
		if err != nil {
			return nil, err
		}
		return about.CheckBinding(raw)

	case c.bind == nil && about.Check != nil:
		spec, err := c.pools.Command(c.runtime, runtimes.Place{PlanDir: planDir})
		if err == nil {
			spec.Init.Blocks, err = c.workerBlocks()
		}
		if err != nil { // a value is not known yet
			return nil, nil
		}
		return func(w worker.Case) error { return about.Check(spec.Init, w) }, nil
	}
	return nil, nil
}

// invalidCases counts the cases that have a parameter value which the op does not accept. example describes
// the first one.
func (c *Config) invalidCases(cases *grid.Cases, planDir string) (n int, example string) {
	check, err := c.checkOf(planDir)
	if err != nil {
		return cases.Len(), err.Error()
	}
	for i := 0; check != nil && i < cases.Len(); i++ {
		params := cases.ParamsJSON(i)
		if err := check(worker.Case{Op: c.opName(cases.Spec.Op), Params: params}); err != nil {
			if n++; n == 1 {
				example = fmt.Sprintf("case %s of %s: %s", params, c.grid.Address, strings.TrimSuffix(err.Error(), "."))
			}
		}
	}
	if check != nil || c.bind != nil {
		return n, example
	}

	name := c.opName(cases.Spec.Op)
	op := slices.IndexFunc(c.kind().Ops, func(o stage.Op) bool { return o.Name == name })
	if op < 0 {
		return 0, ""
	}
	words := c.kind().Ops[op].Words

	bad := make([]bool, cases.Len())
	for at, col := range cases.Columns() {
		allowed := words[col]
		for i := 0; allowed != nil && i < len(bad); i++ {
			v := cases.Value(i, at)
			if bad[i] || stage.IsText(v) && slices.Contains(allowed, v.AsString()) {
				continue
			}

			bad[i] = true
			if n++; n == 1 {
				text := "null"
				if stage.IsText(v) {
					text = fmt.Sprintf("%q", v.AsString())
				}
				example = fmt.Sprintf("op %q of %s runtime takes %s %s, and %s has %s", name, textutil.WithArticle(c.runtime.Kind),
					col, strings.Join(allowed, ", "), c.grid.Address, text)
			}
		}
	}
	return n, example
}

// opUnknown returns an error if the kind of runtime does not measure the op or if the grid lacks
// parameters of the op. A collect with a binding may use any name.
func (c *Config) opUnknown(cases *grid.Cases) error {
	known := c.kind().Ops
	if len(known) == 0 || c.bind != nil {
		return nil
	}

	name := c.opName(cases.Spec.Op)
	i := slices.IndexFunc(known, func(o stage.Op) bool { return o.Name == name })
	if i < 0 || !c.has(known[i]) {
		var have, more []string
		for _, o := range known {
			if c.has(o) {
				have = append(have, o.Name)
			} else {
				more = append(more, fmt.Sprintf("%s with %s = true", o.Name, o.Option))
			}
		}

		also := ""
		if len(more) > 0 {
			also = ", and " + strings.Join(more, ", ")
		}

		return fmt.Errorf("%s runtime has no op %q.%s Its ops are %s%s", textutil.WithArticle(c.runtime.Kind), name,
			textutil.DidYouMean(name, have), strings.Join(have, ", "), also)
	}

	if known[i].Bound {
		return fmt.Errorf("op %q measures what the collect binds, and it binds nothing; name %s with bind", name,
			c.kind().Binds)
	}

	var missing []string
	columns := slices.Concat(cases.Columns(), cases.SweepColumns())
	for _, need := range known[i].Needs {
		if !slices.Contains(columns, need) {
			missing = append(missing, need)
		}
	}

	if len(missing) == 0 {
		return nil
	}

	return fmt.Errorf(
		"op %q of %s runtime needs the parameters %s, and %s has no %s. Add an axis or a column for each to the grid",
		name,
		textutil.WithArticle(c.runtime.Kind),
		strings.Join(known[i].Needs, ", "),
		c.grid.Address,
		strings.Join(missing, ", "),
	)
}

// has reports whether the runtime has an op of its kind. Some ops are enabled by an option.
func (c *Config) has(o stage.Op) bool {
	return o.Option == "" || option[bool](c.runtime, o.Option)
}
