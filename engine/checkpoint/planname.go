package checkpoint

import (
	"path"
	"path/filepath"
)

// PlanName is how records name a plan, by its path: its file or folder with the
// folder that it is in. More of the path differs from machine to machine, and less
// would take every main.hcl for one plan.
func PlanName(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	return filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))
}

// IsPlan says whether a record's name of its plan is that of the plan with a name.
// Earlier versions kept the last part only.
func IsPlan(recorded, name string) bool { return recorded == name || recorded == path.Base(name) }
