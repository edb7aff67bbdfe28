package pyhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"aicplan/sink/base/proc"
	"aicplan/sink/base/textutil"
)

// UnknownVersion is the version of a package that only its worker can report.
const UnknownVersion = "?"

// askTimeout is how long an interpreter may take to answer.
const askTimeout = 30 * time.Second

// Installed is what an interpreter reports without importing the package of the runtime. Versions are "" if
// there is none. Package is UnknownVersion if only a worker can report it.
type Installed struct {
	Package  string            `json:"package,omitempty"`
	Python   string            `json:"python,omitempty"`
	Packages map[string]string `json:"packages,omitempty"` // further packages
	// Failure is why the interpreter did not answer, or "".
	Failure string `json:"-"`
}

// askPython prints the version of an installed distribution, or that there is a package of that name without
// one, which a worker imports to learn it. The second line is the version of the interpreter, further lines
// are distributions and their versions.
//
// Python puts the current folder in front of what -c may import. That may be the folder of a plan that was not
// reviewed yet, so it is removed. Every plan asks, so nothing is imported that the answer does not need.
const askPython = `import sys
if sys.path[:1] == [""]:
    del sys.path[0]
if sys.argv[1] or sys.argv[2:]:
    from importlib import metadata, util
if sys.argv[1]:
    try:
        sys.stdout.write(metadata.version(sys.argv[1]))
    except metadata.PackageNotFoundError:
        if util.find_spec(sys.argv[1]) is not None:
            sys.stdout.write("` + UnknownVersion + `")
sys.stdout.write("\n" + sys.version.split()[0])
for name in sys.argv[2:]:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = "none"
    sys.stdout.write("\n" + name + " " + version)`

// Ask asks an interpreter for versions: its own, that of a package, and those of further packages.
func Ask(ctx context.Context, python, pkg string, packages, env []string) Installed {
	if _, err := exec.LookPath(python); err != nil {
		return Installed{}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", askPython, pkg}, packages...)...)
	cmd.Env = append(os.Environ(), env...)
	// What a wrapper has started keeps its output open after its end.
	out, err := proc.Output(cmd)
	if err != nil {
		return Installed{Package: UnknownVersion, Failure: unanswered(ctx, err)}
	}
	lines := strings.Split(string(out), "\n")
	got := Installed{Package: strings.TrimSpace(lines[0])}
	if len(lines) > 1 {
		got.Python = strings.TrimSpace(lines[1])
	}
	for _, line := range lines[min(2, len(lines)):] {
		if name, version, ok := strings.Cut(line, " "); ok {
			if got.Packages == nil {
				got.Packages = map[string]string{}
			}
			got.Packages[name] = strings.TrimSpace(version)
		}
	}
	return got
}

// unanswered returns why an interpreter did not answer.
func unanswered(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v, so it hangs or its disk is very slow", askTimeout)
	}
	why := err.Error()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		if last := textutil.OneLine(lines[len(lines)-1]); last != "" {
			why += ": " + textutil.Clip(last, 200)
		}
	}
	return why
}
