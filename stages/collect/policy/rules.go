package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"aicplan/cudaops/worker"
)

// Rule classifies failures.
type Rule struct {
	match, exception *regexp.Regexp // both must match; nil matches everything
	class            string
	oom              bool // out of memory: retried on a fresh worker
}

// classes are the failure classes that a rule may assign.
var classes = []string{
	worker.ClassCollectorBug, worker.ClassUnsupportedConfig, worker.ClassFrameworkBug,
	worker.ClassResourceIssue, worker.ClassTransient, worker.ClassTimeout,
}

// NewRule returns a rule of a plan. match and exception are regular expressions over the text and the exception
// of a failure; one of them may be empty.
func NewRule(match, exception, class string) (Rule, error) {
	r := Rule{class: class}
	if !slices.Contains(classes, class) {
		return r, fmt.Errorf("class is %q; it must be one of %s", class, strings.Join(classes, ", "))
	}
	if match == "" && exception == "" {
		return r, fmt.Errorf("it needs match or exception, else it fits every failure")
	}

	var err error
	if r.match, err = compile(match); err != nil {
		return r, fmt.Errorf("match: %w", err)
	}
	if r.exception, err = compile(exception); err != nil {
		return r, fmt.Errorf("exception: %w", err)
	}
	return r, nil
}

// compile returns nil for an empty expression.
func compile(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	return regexp.Compile(text)
}

// builtin are the rules for failures without a class. The order matters: a TypeError with the text
// "unsupported operand" is an error in the op's code. They are compiled on first use, because few commands need them.
var builtin = sync.OnceValue(func() []Rule {
	return []Rule{
		memoryRule(`OutOfMemory|^MemoryError$`, ""),
		memoryRule("", `out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|`+
			`cannot allocate memory|std::bad_alloc|failed to allocate`),
		memoryRule(`^SIGKILL$`, ""),
		builtinRule(worker.ClassResourceIssue, "",
			fullDisk+`|too many open files|read-only file system|`+
				`out of resource|too many resources requested|exceeds.{0,40}shared memory|`+
				`stream ?capture|graph capture|operation not permitted when stream is capturing|`+
				`uncorrectable ECC|CUDA_ERROR_ECC`),
		builtinRule(worker.ClassCollectorBug,
			`^(ImportError|ModuleNotFoundError|AttributeError|NameError|UnboundLocalError|TypeError|KeyError|IndexError|`+
				`SyntaxError|IndentationError|FileNotFoundError|UnicodeDecodeError|ProtocolError)$`, ""),
		builtinRule(worker.ClassUnsupportedConfig, `^(NotImplementedError|Unsupported)$`, ""),
		builtinRule(worker.ClassUnsupportedConfig, "",
			`not supported|unsupported|no kernel image|not implemented for|`+
				`requires (compute capability|sm_?\d|device with capability)|`+
				`CUBLAS_STATUS_NOT_SUPPORTED|CUDNN_STATUS_NOT_SUPPORTED|no available kernel|`+
				`no (valid|suitable) (kernel|tactic|config|engine|algorithm)|\b(be|not) (divisible|a multiple)|`+
				`requires (a )?\d+-aligned`),
		builtinRule(worker.ClassFrameworkBug, `AcceleratorError|DSLCudaRuntimeError`, ""),
		builtinRule(worker.ClassFrameworkBug, "",
			`illegal memory access|illegal instruction|illegal address|unspecified launch failure|misaligned address|`+
				`device-side assert|CUBLAS_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)|`+
				`CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED)`),
		builtinRule(worker.ClassTransient, `^(ConnectionError|ConnectionResetError|ConnectionRefusedError|`+
			`BrokenPipeError|BlockingIOError|InterruptedError)$`, ""),
		builtinRule(worker.ClassTransient, "",
			`connection (reset|refused|aborted)|temporarily unavailable|resource busy|device or resource busy|`+
				`stale file handle|text file busy|address already in use|`+
				`remote process (has )?(exited|terminated)|unhandled system error`),
		builtinRule(worker.ClassFrameworkBug, `^(SIG[A-Z]+|signal \d+|exit status \d+)$`, ""),
	}
})

const fullDisk = `no space left on device|disk quota exceeded`

var diskRule = builtinRule(worker.ClassResourceIssue, "", fullDisk)

// FullDisk reports whether a case failed because a disk was full. Such a failure holds only until the next run.
func FullDisk(f *worker.Failure) bool { return diskRule.fits(f) }

// builtinRule returns a rule whose match ignores case. Empty expressions match everything.
func builtinRule(class, exception, match string) Rule {
	r := Rule{class: class}
	if exception != "" {
		r.exception = regexp.MustCompile(exception)
	}
	if match != "" {
		r.match = regexp.MustCompile(`(?i)` + match)
	}
	return r
}

func memoryRule(exception, match string) Rule {
	r := builtinRule(worker.ClassResourceIssue, exception, match)
	r.oom = true
	return r
}

// maxJudged is the number of bytes of a text that rules are matched against, half of them from its end.
const maxJudged = 32 << 10

func judgedText(s string) string {
	if len(s) <= maxJudged {
		return s
	}
	return s[:maxJudged/2] + "\n" + s[len(s)-maxJudged/2:]
}

func (r *Rule) fits(f *worker.Failure) bool {
	if r.exception != nil && !r.exception.MatchString(f.Exception) {
		return false
	}
	return r.match == nil || r.match.MatchString(f.Message) || r.match.MatchString(f.Traceback)
}

// Classify returns the class of a failure and whether it is an out-of-memory failure, which may not occur again
// on a fresh worker. Rules of the plan precede the class that the worker reports, which precedes the built-in
// rules. Unknown failures are attributed to the framework, because the plan requested the case.
func Classify(rules []Rule, f *worker.Failure) (class string, oom bool) {
	f = &worker.Failure{Class: f.Class, Exception: f.Exception, Message: judgedText(f.Message),
		Traceback: judgedText(f.Traceback)}
	fits := func(r Rule) bool { return r.fits(f) }

	oom = slices.ContainsFunc(builtin(), func(r Rule) bool { return r.oom && r.fits(f) })
	if at := slices.IndexFunc(rules, fits); at >= 0 {
		class = rules[at].class
	} else if slices.Contains(classes, f.Class) {
		class = f.Class
	} else if at := slices.IndexFunc(builtin(), fits); at >= 0 {
		return builtin()[at].class, builtin()[at].oom
	} else {
		return worker.ClassFrameworkBug, false
	}
	return class, oom && class == worker.ClassResourceIssue
}
