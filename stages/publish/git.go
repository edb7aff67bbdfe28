package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/proc"
	"aicplan/stages/export"
)

// repository is a git repository, worked on by its objects and references: no
// file of a work tree is touched. After a command has failed, no other one runs.
type repository struct {
	dir string
	env []string
	err error // of the command that failed
}

// noQuestions keeps git, gh and ssh from asking for a password.
var noQuestions = []string{"GIT_TERMINAL_PROMPT=0", "GH_PROMPT_DISABLED=1", "SSH_ASKPASS_REQUIRE=never"}

// otherRepository lists variables that make git use another repository than its folder. Git sets them for hooks.
var otherRepository = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"}

// git runs one command and returns what it prints, without the last line end.
// Commands never ask anything.
func (r *repository) git(ctx context.Context, stdin string, args ...string) string {
	if r.err != nil {
		return ""
	}

	env := append([]string{"GIT_OPTIONAL_LOCKS=0"}, r.env...)
	out, said, err := command(ctx, env, stdin, "git", append([]string{"-C", r.dir}, args...)...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		r.err = fmt.Errorf("git is not installed; publish needs it")
	case err != nil:
		r.err = fmt.Errorf("git %s: %w: %s%s", args[0], err, firstLines(said), signIn(said))
	}
	return strings.TrimRight(out, "\n")
}

// try runs a command that may fail.
func (r repository) try(ctx context.Context, args ...string) (string, error) {
	out := r.git(ctx, "", args...)
	return out, r.err
}

// command runs a program, which asks nothing. It returns what the program writes to stdout and to stderr.
func command(ctx context.Context, env []string, stdin, name string, args ...string) (out, said string, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(otherRepository, name)
	})
	cmd.Env = slices.Concat(inherited, []string{"LC_ALL=C"}, env, noQuestions)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = proc.Run(cmd); err != nil && ctx.Err() != nil {
		err = ctx.Err() // the program was ended because of it
	}
	return stdout.String(), stderr.String(), err
}

// signIn returns the next step if git would have asked for credentials.
func signIn(said string) string {
	for _, asks := range []string{"terminal prompts disabled", "Host key verification failed",
		"Permission denied (publickey"} {
		if strings.Contains(said, asks) {
			return "; publish cannot ask for credentials: add the key to ssh-agent (ssh-add), the host's key by calling ssh " +
				"once, or a token to a credential helper of git"
		}
	}
	return ""
}

func firstLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[:min(3, len(lines))], "; ")
}

// check makes sure that the folder is a repository.
func (r *repository) check(ctx context.Context) {
	if info, err := os.Stat(r.dir); err != nil || !info.IsDir() {
		r.err = fmt.Errorf("the repository %s is not there; clone it first, or correct \"repository\"", r.dir)
		return
	}
	if r.git(ctx, "", "rev-parse", "--git-dir"); r.err != nil {
		r.err = fmt.Errorf("%s is no git repository: %w", r.dir, r.err)
		return
	}

	// A folder somewhere inside of a clone would do, by accident.
	top, bare := r.try(ctx, "rev-parse", "--show-toplevel")
	want, err := filepath.EvalSymlinks(r.dir)
	if bare == nil && err == nil && filepath.Clean(top) != want {
		r.err = fmt.Errorf("%s is inside the repository %s; name its top folder", r.dir, top)
	}
}

// resolve returns the commit that a name refers to, "" when there is none.
func (r *repository) resolve(ctx context.Context, name string) string {
	out, err := r.try(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		r.err = err
	}
	return out
}

// checkedOut names the work tree that has the branch, or "".
func (r *repository) checkedOut(ctx context.Context, branch string) string {
	tree := ""
	for line := range strings.SplitSeq(r.git(ctx, "", "worktree", "list", "--porcelain"), "\n") {
		if dir, ok := strings.CutPrefix(line, "worktree "); ok {
			tree = dir
		}
		if line == "branch refs/heads/"+branch {
			return tree
		}
	}
	return ""
}

// file is one file to commit.
type file struct {
	from string // on disk
	to   string // in the repository
}

// tree writes the tree of a commit with the files put in, without the partial ones that they replace, and returns its
// id.
func (r *repository) tree(ctx context.Context, parent string, files []file) string {
	if parent != "" {
		r.git(ctx, "", "read-tree", parent)
	}

	var entries strings.Builder
	for _, f := range files {
		// --no-filters: the bytes are those whose digest the report names.
		id := r.git(ctx, "", "hash-object", "-w", "--no-filters", "--", f.from)
		fmt.Fprintf(&entries, "100644 %s\t%s\x00", id, f.to)
		replaced := export.PartialName(f.to)
		if !slices.ContainsFunc(files, func(f file) bool { return f.to == replaced }) {
			fmt.Fprintf(&entries, "0 %s\t%s\x00", strings.Repeat("0", len(id)), replaced)
		}
	}

	r.git(ctx, entries.String(), "update-index", "-z", "--add", "--index-info")
	return r.git(ctx, "", "write-tree")
}
