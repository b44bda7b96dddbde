// Imports: modules that kernels know, files that came with the kernel's, and what is neither, which
// is an error only where something uses it.
#include "compiler/lang/imports.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/lang/parser.h"
#include "compiler/lang/raised.h"
#include "compiler/lang/suggest.h"

namespace kiln::lang {
namespace {

bool IsImportError(ast::ExprPtr type) {
  if (type == nullptr) return true;
  if (const auto* tuple = type->As<ast::Tuple>()) {
    return std::any_of(tuple->items.begin(), tuple->items.end(), IsImportError);
  }
  const auto* attribute = type->As<ast::Attribute>();
  const auto* id = type->As<ast::Name>();
  const absl::string_view name = attribute ? absl::string_view(attribute->attr)
                                 : id      ? absl::string_view(id->id)
                                           : absl::string_view();
  return name == "ImportError" || name == "ModuleNotFoundError" || name == "Exception" ||
         name == "BaseException";
}

bool HasKnownRoot(absl::string_view path) {
  return FindModule(std::string(path.substr(0, path.find('.')))) != nullptr;
}

// The top-level modules of Python's library (3.12's sys.stdlib_module_names).
constexpr absl::string_view kPythons =
    "abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 "
    "bdb binascii bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs "
    "codeop collections colorsys compileall concurrent configparser contextlib contextvars "
    "copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis "
    "distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp "
    "fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob "
    "graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib "
    "inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma "
    "mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing "
    "netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev "
    "pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath "
    "pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri "
    "random re readline reprlib resource rlcompleter runpy sched secrets select selectors "
    "shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 "
    "sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct "
    "subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile "
    "termios textwrap this threading time timeit tkinter token tokenize tomllib trace "
    "traceback tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu "
    "uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc "
    "zipapp zipfile zipimport zlib zoneinfo __future__ ";

// Names of Python's math (3.12).
constexpr absl::string_view kMath =
    "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist e erf "
    "erfc exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma gcd hypot inf isclose "
    "isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan nextafter perm pi "
    "pow prod radians remainder sin sinh sqrt sumprod tan tanh tau trunc ulp";

bool IsOfMath(absl::string_view name) {
  const std::vector<absl::string_view> names = absl::StrSplit(kMath, ' ');
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsPythons(absl::string_view path) {
  const absl::string_view root = path.substr(0, path.find('.'));
  for (const absl::string_view name : absl::StrSplit(kPythons, ' ', absl::SkipEmpty())) {
    if (name == root) return true;
  }
  return false;
}

}  // namespace

absl::Status Elaborator::ExecImport(const ast::Import& node) {
  auto bind = [&](const ast::ImportedName& name, const std::string& path,
                  const std::string& from) -> absl::Status {
    Value value;
    const Module* module = FindModule(path);
    if (module != nullptr) {
      value = Value::OfModule(module);
    } else {
      auto* unknown = arena_.New<UnknownObject>();
      unknown->path = path;
      unknown->module = from;
      unknown->reason = WhyAbsent(module_, from);
      value = Value::Of(Type::kUnknown, unknown);
    }
    return Bind(name.alias, value, node.loc, /*fresh=*/true);
  };
  const SourceSection& here = module_.SectionAt(node.loc);
  const std::string from = AbsoluteName(node.module, here.module, here.package);
  for (const ast::ImportedName& name : node.names) {
    if (node.module.empty()) {
      const std::string& path = name.whole_path ? name.alias : name.path;
      KILN_RETURN_IF_ERROR(bind(name, path, name.path));
      continue;
    }
    if (name.path == "*") continue;  // names are looked up in the module when they are read
    const std::string path = absl::StrCat(from, from.empty() ? "" : ".", name.path);
    const SourceSection* file = module_.FindSection(from);
    const bool submodule =  // a package's file that it imports itself, or gives no other meaning
        module_.FindSection(path) != nullptr &&
        (file == &here || file == nullptr || !file->globals.contains(name.path));
    if (file != nullptr && !submodule) {
      if (file != &here && file->stars.empty() && !file->globals.contains(name.path)) {
        std::vector<std::string> names;
        for (const auto& entry : file->globals) names.emplace_back(entry.first);
        std::sort(names.begin(), names.end());
        return Error(node.loc, absl::StrCat("the file of '", from, "' has no '", name.path, "'"),
                     DidYouMean(name.path, names, "define it there, or import another name"));
      }
      KILN_ASSIGN_OR_RETURN(const Value value, ReadGlobalOf(*file, name.path, node.loc, SIZE_MAX));
      KILN_RETURN_IF_ERROR(Bind(name.alias, value, node.loc, /*fresh=*/true));
      continue;
    }
    const Module* module = FindModule(node.module);
    if (module != nullptr && FindModule(absl::StrCat(node.module, ".", name.path)) == nullptr) {
      const absl::StatusOr<Value> member = GetMember(*module, name.path, node.loc);
      if (member.ok()) {
        KILN_RETURN_IF_ERROR(Bind(name.alias, *member, node.loc, /*fresh=*/true));
        continue;
      }
      auto* unknown = arena_.New<UnknownObject>();
      unknown->path = absl::StrCat(node.module, ".", name.path);
      const std::optional<Diagnostic> why = DiagnosticOf(member.status());
      unknown->reason = "it is not supported";
      const auto refused = module->refused.find(name.path);
      if (refused != module->refused.end()) {
        absl::StrAppend(&unknown->reason, ": ", refused->second);
      } else if (why.has_value()) {
        unknown->remedy = why->remedy;
      }
      KILN_RETURN_IF_ERROR(
          Bind(name.alias, Value::Of(Type::kUnknown, unknown), node.loc, /*fresh=*/true));
      continue;
    }
    KILN_RETURN_IF_ERROR(bind(name, path, from));
  }
  return absl::OkStatus();
}

// An import of the body that is not there ends it, as an exception does that a handler is certain
// to catch; what may be caught is named in its error.
absl::StatusOr<Flow> Elaborator::ExecTry(const ast::Try& node) {
  if (frame_->traced) {
    return Unimplemented(node.loc, "try is not in the kernel language",
                         "check the condition with if or assert");
  }
  absl::StatusOr<Flow> flow = ExecHandled(node);
  // Behind an error that is none in Python nothing more is done.
  if (!flow.ok() && ExceptionOf(flow.status()).empty()) return flow;
  const absl::StatusOr<Flow> last = ExecBlock(node.finally);
  if (!last.ok()) return flow.ok() ? last : Raised(flow.status(), "");
  return *last == Flow::kNormal ? flow : last;
}

absl::StatusOr<Flow> Elaborator::ExecHandled(const ast::Try& node) {
  const auto handler = std::find_if(node.handlers.begin(), node.handlers.end(),
                                    [](const ast::Handler& h) { return IsImportError(h.type); });
  const bool catches = handler != node.handlers.end();
  const auto place = std::make_tuple(current_, name_hint_, stored_, taken_whole_);
  const size_t regions = regions_.size();
  frame_->trying += catches ? 1 : 0;
  const absl::StatusOr<Flow> tried = ExecBlock(node.body);
  frame_->trying -= catches ? 1 : 0;
  if (!tried.ok()) {
    const ast::Handler* taken = HandlerOf(tried.status(), node);
    if (taken == nullptr || regions_.size() != regions) return NotFollowed(tried.status(), node);
    std::tie(current_, name_hint_, stored_, taken_whole_) = place;
    return ExecHandler(*taken, tried.status(), node.loc);
  }
  if (catches && *tried == Flow::kAbsent) return ExecHandler(*handler, absl::OkStatus(), node.loc);
  return *tried == Flow::kNormal ? ExecBlock(node.otherwise) : tried;
}

absl::StatusOr<Flow> Elaborator::ExecHandler(const ast::Handler& handler, absl::Status error,
                                             SourceLoc loc) {
  if (!handler.name.empty()) {
    auto* bound = arena_.New<UnknownObject>();
    bound->path = handler.name;
    bound->module = "an exception";
    bound->reason = "an exception has no value in kernels";
    KILN_RETURN_IF_ERROR(Bind(handler.name, Value::Of(Type::kUnknown, bound), loc));
  }
  const absl::Status outer = std::exchange(handled_, std::move(error));
  const absl::StatusOr<Flow> flow = ExecBlock(handler.body);
  handled_ = outer;
  if (!handler.name.empty()) frame_->scope->names.erase(handler.name);
  return flow;
}

// Files in `seen` are being looked at.
using Sections = absl::flat_hash_set<const SourceSection*>;

static bool IsPresent(const ParsedModule& parsed, const ast::Import& node, Sections* seen) {
  const auto loads = [&](const SourceSection& file) {
    if (!seen->insert(&file).second) return true;
    return std::all_of(parsed.tree->body.begin() + static_cast<std::ptrdiff_t>(file.first),
                       parsed.tree->body.begin() + static_cast<std::ptrdiff_t>(file.last),
                       [&](ast::StmtPtr stmt) {
                         const auto* import = stmt->As<ast::Import>();
                         return import == nullptr || IsPresent(parsed, *import, seen);
                       });
  };
  const auto module_present = [&](const std::string& path) {
    if (HasKnownRoot(path) || IsPythons(path) || parsed.FindLeftOut(path) != nullptr) return true;
    bool found = false, fails = false;
    for (auto file = parsed.sections.begin() + 1; file != parsed.sections.end(); ++file) {
      found |= file->module == path || absl::StartsWith(file->module, absl::StrCat(path, "."));
      const bool loaded =  // by the import: the module and the packages that it is in
          file->module == path || absl::StartsWith(path, absl::StrCat(file->module, "."));
      fails |= loaded && !loads(*file);
    }
    return found && !fails;
  };
  const SourceSection& here = parsed.SectionAt(node.loc);
  const std::string from = AbsoluteName(node.module, here.module, here.package);
  return std::all_of(node.names.begin(), node.names.end(), [&](const ast::ImportedName& name) {
    if (node.module.empty()) return module_present(name.path);
    if (from == "math") return name.path == "*" || IsOfMath(name.path);
    if (HasKnownRoot(from) || IsPythons(from)) return true;
    const std::string path = absl::StrCat(from, from.empty() ? "" : ".", name.path);
    const SourceSection* file = parsed.FindSection(from);
    if (name.path == "*" || parsed.FindLeftOut(from) != nullptr) return module_present(from);
    if (file == nullptr) return module_present(path);
    return (file->globals.contains(name.path) && module_present(from)) || module_present(path);
  });
}

bool IsPresent(const ParsedModule& parsed, const ast::Import& node) {
  Sections seen;
  return IsPresent(parsed, node, &seen);
}

std::string WhyAbsent(const ParsedModule& parsed, const std::string& module) {
  const std::string unknown = "it is an import that kernels do not know";
  if (const LeftOutFile* file = parsed.FindLeftOut(module)) {
    return file->broken
               ? absl::StrCat(file->path, " is not Python")
               : absl::StrCat(file->path, " makes the kernel's text too large, or cannot be read");
  }
  if (module.empty() || HasKnownRoot(module)) return unknown;
  const size_t slash = parsed.file->path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : parsed.file->path.substr(0, slash + 1);
  return absl::StrCat(unknown, ", and there is no ", absl::StrReplaceAll(module, {{".", "/"}}),
                      ".py beside the kernel file, in ", folder);
}

absl::Status Elaborator::UnknownValue(const Value& v, SourceLoc loc, std::string message,
                                      std::string remedy) {
  const UnknownObject& unknown = v.unknown();
  if (absl::Status broken = BrokenFile(unknown.module, loc); !broken.ok()) return broken;
  if (!unknown.reason.empty()) absl::StrAppend(&message, ": ", unknown.reason);
  if (!unknown.remedy.empty()) remedy = unknown.remedy;
  return Unimplemented(loc, std::move(message), std::move(remedy));
}

absl::Status Elaborator::NoValue(const Value& v, SourceLoc loc) {
  return UnknownValue(v, loc, absl::StrCat(Describe(v), " has no value here"),
                      "compute the value outside and pass it as a parameter");
}

// What is wrong in the file of a module that is not Python; ok for any other module.
absl::Status Elaborator::BrokenFile(const std::string& module, SourceLoc loc) const {
  const LeftOutFile* file = module_.FindLeftOut(module);
  if (file == nullptr || !file->broken) return absl::OkStatus();
  const size_t slash = this->file().path.rfind('/');
  SourceFile source;
  source.path = absl::StrCat(
      slash == std::string::npos ? "" : this->file().path.substr(0, slash + 1), file->path);
  source.text = file->text;
  const absl::Status status = ParseSource(source, limits_).status();
  std::optional<Diagnostic> d = DiagnosticOf(status);
  if (!d.has_value()) return absl::OkStatus();
  d->notes.push_back(absl::StrCat("the kernel uses this file at ", At(Known(loc))));
  return DiagnosticStatus(*d, status.code());
}

}  // namespace kiln::lang
