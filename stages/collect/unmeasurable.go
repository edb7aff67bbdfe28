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

	"aicplan/sink/phrase"
)

// unmeasurable says why no worker of the runtime can measure the op, as far as
// that is known without one; nil when nothing is in the way.
func (c *Config) unmeasurable(gridOp, planDir string) error {
	switch c.runtime.Kind {
	case "cpu":
		ops, more := []string{"gemm", "memory"}, ", and synthetic with synthetic = true"
		if v, ok := c.runtime.Options["synthetic"]; ok && v.Type() == cty.Bool && v.IsKnown() && !v.IsNull() && v.True() {
			ops, more = append(ops, "synthetic"), ""
		}
		op := c.opName(gridOp)
		if slices.Contains(ops, op) {
			return nil
		}
		return fmt.Errorf("a cpu runtime has no op %q.%s Its ops are %s%s", op, phrase.DidYouMean(op, ops), strings.Join(ops, ", "), more)
	case "python":
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
	}
	return nil
}
