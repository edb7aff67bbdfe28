package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// openPTY returns the two ends of a pseudo terminal with a width.
func openPTY(t *testing.T, columns int) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })

	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)})
	}
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}

	return master, terminal
}

// onTerminal runs aicplan on a terminal and returns all that it printed, escape sequences included.
func onTerminal(t *testing.T, dir string, columns int, args ...string) string {
	t.Helper()
	master, terminal := openPTY(t, columns)
	cmd := exec.Command(filepath.Join(binDir(t), "aicplan"), args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, terminal, terminal, terminal
	cmd.Env = append(os.Environ(), "COLUMNS=", "NO_COLOR=1", "TERM=xterm")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()

	var out bytes.Buffer
	_, err := io.Copy(&out, master) // ends with EIO when the last writer has closed the terminal
	if err != nil && !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("aicplan %v: %v\n%s", args, err, out.String())
	}

	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// TestOutputOnTerminals runs commands at 80 and 160 columns: escape sequences reach the terminal as they
// are, no line is wider, and no word is broken.
func TestOutputOnTerminals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plan := `runtime "try" {
  kind      = "cpu"
  framework = "TRY"
  synthetic = true
}
grid "a_grid_with_quite_a_long_name" {
  op = "synthetic"
  axis "m" { values = [1, 2, 4, 8] }
}
collect "a_collect_with_quite_a_long_name" {
  grid    = grid.a_grid_with_quite_a_long_name
  runtime = runtime.try
}
`
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, columns := range []int{80, 160} {
		for _, args := range [][]string{
			{"plan", "plan.hcl"}, {"apply", "plan.hcl"}, {"status", "--watch"}, {"status"}, {"ckpt", "list"},
			{"report", "--list"}, {"describe", "plan.hcl"}, {"show", "collect.a_collect_with_quite_a_long_name"},
			{"systems"}, {"plan", "--help"},
		} {
			out := onTerminal(t, dir, columns, args...)
			for _, escaped := range []string{`\u001b`, `\u000d`, `\x1b`} {
				if strings.Contains(out, escaped) {
					t.Errorf("%d columns: aicplan %v prints an escape sequence as text:\n%s", columns, args, out)
				}
			}

			for line := range strings.Lines(out) {
				line = strings.TrimRight(line, "\n")
				if n := utf8.RuneCountInString(line); n > columns && !strings.Contains(line, "\x1b") {
					t.Errorf("%d columns: aicplan %v prints %d: %s", columns, args, n, line)
				}
			}

			named := args[0] == "ckpt" || args[0] == "describe" || args[0] == "plan" && args[1] == "plan.hcl"
			if named && !strings.Contains(out, "a_collect_with_quite_a_long_name") {
				t.Errorf("%d columns: aicplan %v breaks or omits the name:\n%s", columns, args, out)
			}
		}
	}
}

// screenOf returns the lines that remain after the escape sequences of a redraw: cursor up and clear to the end.
func screenOf(t *testing.T, printed string) []string {
	t.Helper()
	var lines []string
	redraw := regexp.MustCompile("^\x1b\\[([0-9]+)A\x1b\\[J")
	for line := range strings.Lines(strings.ReplaceAll(printed, "\r\n", "\n")) {
		for {
			m := redraw.FindStringSubmatch(line)
			if m == nil {
				break
			}
			up, err := strconv.Atoi(m[1])
			if err != nil || up > len(lines) {
				t.Fatalf("the cursor moves up %s of %d lines", m[1], len(lines))
			}
			lines, line = lines[:len(lines)-up], strings.TrimPrefix(line, m[0])
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// TestWatchRedrawsDuringARun watches a run on a terminal. The case ends after the first redraw, so that frames of a
// running and an ended run are drawn. One frame remains on the screen.
func TestWatchRedrawsDuringARun(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{80, 160} {
		dir := t.TempDir()
		plan := fmt.Sprintf(`runtime "try" {
  kind      = "cpu"
  synthetic = true
}
grid "a_grid_with_quite_a_long_name" {
  op = "synthetic"
  axis "m" { values = [1, 2] }
  axis "wait_for" { values = [%q] }
}
collect "a_collect_with_quite_a_long_name_that_does_not_fit" {
  grid    = grid.a_grid_with_quite_a_long_name
  runtime = runtime.try
}
`, filepath.Join(dir, "go"))
		if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), []byte(plan), 0o644); err != nil {
			t.Fatal(err)
		}

		apply := exec.Command(filepath.Join(binDir(t), "aicplan"), "apply", "--json", "plan.hcl")
		apply.Dir = dir
		events, err := apply.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := apply.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(events)
		for lines.Scan() && !strings.Contains(lines.Text(), `"worker up`) {
			continue // the run is there once its worker is
		}
		go io.Copy(io.Discard, events)

		master, terminal := openPTY(t, columns)
		watch := exec.Command(filepath.Join(binDir(t), "aicplan"), "status", "--watch")
		watch.Dir, watch.Stdin, watch.Stdout, watch.Stderr = dir, terminal, terminal, terminal
		watch.Env = append(os.Environ(), "COLUMNS=", "NO_COLOR=1", "TERM=xterm")
		if err := watch.Start(); err != nil {
			t.Fatal(err)
		}
		terminal.Close()

		var out bytes.Buffer
		buffer, released := make([]byte, 4096), false
		for {
			n, err := master.Read(buffer)
			out.Write(buffer[:n])
			if !released && bytes.Contains(out.Bytes(), []byte("\x1b[J")) {
				released = true
				if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil {
				break
			}
		}
		if err := errors.Join(watch.Wait(), apply.Wait()); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}

		screen := screenOf(t, out.String())
		text := strings.Join(screen, "\n")
		if !strings.Contains(out.String(), ": running,") || strings.Contains(text, ": running,") ||
			strings.Count(text, "Run 2") != 1 {
			t.Errorf("%d columns: the screen is\n%s\nall that was printed is\n%q", columns, text, out.String())
		}
		if !strings.Contains(text, "collect.a_collect_with_quite_a_long_name_that_does_not_fit") {
			t.Errorf("%d columns: the name is broken:\n%s", columns, text)
		}
		for _, line := range screen {
			if n := utf8.RuneCountInString(line); n > columns {
				t.Errorf("%d columns: a line has %d: %s", columns, n, line)
			}
		}
	}
}
