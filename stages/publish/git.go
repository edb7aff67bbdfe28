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
// file of a work tree is touched.
type repository struct {
	dir string
	env []string
}

// noQuestions keeps git, gh and ssh from asking for a password.
var noQuestions = []string{"GIT_TERMINAL_PROMPT=0", "GH_PROMPT_DISABLED=1", "SSH_ASKPASS_REQUIRE=never"}

// otherRepository lists variables that make git use another repository than its folder. Git sets them for hooks.
var otherRepository = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"}

// git runs one command and returns what it prints, without the last line end.
// Commands never ask anything.
func (r repository) git(ctx context.Context, stdin string, args ...string) (string, error) {
	env := append([]string{"GIT_OPTIONAL_LOCKS=0"}, r.env...)
	out, said, err := command(ctx, env, stdin, "git", append([]string{"-C", r.dir}, args...)...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("git is not installed; publish needs it")
	case err != nil:
		return "", fmt.Errorf("git %s: %w: %s%s", args[0], err, firstLines(said), signIn(said))
	}

	return strings.TrimRight(out, "\n"), nil
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
func (r repository) check(ctx context.Context) error {
	if info, err := os.Stat(r.dir); err != nil || !info.IsDir() {
		return fmt.Errorf("the repository %s is not there; clone it first, or correct \"repository\"", r.dir)
	}

	if _, err := r.git(ctx, "", "rev-parse", "--git-dir"); err != nil {
		return fmt.Errorf("%s is no git repository: %w", r.dir, err)
	}

	// A folder somewhere inside of a clone would do, by accident.
	top, err := r.git(ctx, "", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil // a bare repository has none
	}

	want, err := filepath.EvalSymlinks(r.dir)
	if err == nil && filepath.Clean(top) != want {
		return fmt.Errorf("%s is inside the repository %s; name its top folder", r.dir, top)
	}

	return nil
}

// resolve returns the commit that a name refers to, "" when there is none.
func (r repository) resolve(ctx context.Context, name string) (string, error) {
	out, err := r.git(ctx, "", "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	return out, err
}

// checkedOut names the work tree that has the branch, or "".
func (r repository) checkedOut(ctx context.Context, branch string) (string, error) {
	out, err := r.git(ctx, "", "worktree", "list", "--porcelain")
	if err != nil {
		return "", err
	}

	tree := ""
	for _, line := range strings.Split(out, "\n") {
		if dir, ok := strings.CutPrefix(line, "worktree "); ok {
			tree = dir
		}
		if line == "branch refs/heads/"+branch {
			return tree, nil
		}
	}

	return "", nil
}

// file is one file to commit.
type file struct {
	from string // on disk
	to   string // in the repository
}

// tree writes the tree of a commit with the files put in, without the partial ones that they replace, and returns its
// id.
func (r repository) tree(ctx context.Context, parent string, files []file) (string, error) {
	if parent != "" {
		if _, err := r.git(ctx, "", "read-tree", parent); err != nil {
			return "", err
		}
	}

	var entries strings.Builder
	for _, f := range files {
		// --no-filters: the bytes are those whose digest the report names.
		id, err := r.git(ctx, "", "hash-object", "-w", "--no-filters", "--", f.from)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&entries, "100644 %s\t%s\x00", id, f.to)
		replaced := export.PartialName(f.to)
		if !slices.ContainsFunc(files, func(f file) bool { return f.to == replaced }) {
			fmt.Fprintf(&entries, "0 %s\t%s\x00", strings.Repeat("0", len(id)), replaced)
		}
	}

	if _, err := r.git(ctx, entries.String(), "update-index", "-z", "--add", "--index-info"); err != nil {
		return "", err
	}

	return r.git(ctx, "", "write-tree")
}

// identity is who commits, "Name <address>".
func (r repository) identity(ctx context.Context) (string, error) {
	out, err := r.git(ctx, "", "var", "GIT_COMMITTER_IDENT")
	if err != nil {
		return "", fmt.Errorf(
			"git does not know who commits; add author { name = \"...\" email = \"...\" } to the publish block, or set git "+
				"config user.name and user.email: %w",
			err,
		)
	}

	return out[:strings.LastIndexByte(out, '>')+1], nil // without the time
}
