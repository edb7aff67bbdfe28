package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/phrase"
)

// unmeasurable says why no worker of the runtime can measure the cases, as far
// as that is known without one; nil when nothing is in the way.
func (c *Config) unmeasurable(cases *grid.Cases, planDir string) error {
	if err := c.opUnknown(cases); err != nil {
		return err
	}
	if len(c.runtime.Launcher) > 0 {
		return nil // behind it are other files
	}
	for _, p := range c.runtime.Path {
		if !filepath.IsAbs(p) {
			p = filepath.Join(planDir, p)
		}
		if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("path of %s names %s, which is not there", c.runtime.Address, p)
		}
	}
	return nil
}

// opUnknown holds the op and its parameters against what the kind of runtime
// measures. A collect that brings its own code may call it anything.
func (c *Config) opUnknown(cases *grid.Cases) error {
	known := c.kind().Ops
	if len(known) == 0 || c.bind != nil {
		return nil
	}
	name := c.opName(cases.Spec().Op)
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
		return fmt.Errorf("a %s runtime has no op %q.%s Its ops are %s%s", c.runtime.Kind, name, phrase.DidYouMean(name, have), strings.Join(have, ", "), also)
	}
	if known[i].Bound {
		return fmt.Errorf("op %q measures what the collect binds, and it binds nothing; name %s with bind", name, c.kind().Binds)
	}
	var missing []string
	near := ""
	columns := slices.Concat(cases.Columns(), cases.SweepColumns())
	for _, need := range known[i].Needs {
		if !slices.Contains(columns, need) {
			missing = append(missing, need)
			if near == "" {
				near = phrase.Nearest(need, columns)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	hint := ""
	if near != "" {
		hint = fmt.Sprintf(" %s looks like one of them.", near)
	}
	return fmt.Errorf("op %q of a %s runtime needs the parameters %s, and %s has no %s.%s Add an axis or a column for each to the grid",
		name, c.runtime.Kind, strings.Join(known[i].Needs, ", "), c.grid.Address, strings.Join(missing, ", "), hint)
}

// has says whether the runtime has an op of its kind: some are added by an option.
func (c *Config) has(o stage.Op) bool {
	if o.Option == "" {
		return true
	}
	v, ok := c.runtime.Options[o.Option]
	return ok && v.Type() == cty.Bool && v.IsKnown() && !v.IsNull() && v.True()
}
