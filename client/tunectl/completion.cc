// completion: scripts made from the commands themselves, so that they cannot fall behind.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/tunectl/command.h"

namespace kiln::tunectl {
namespace {

struct OptionInfo {
  std::vector<std::string> names;  // "--format", "-o"
  std::string description;
  bool takes_value = false;
};

std::vector<OptionInfo> OptionsOf(const CLI::App& app) {
  std::vector<OptionInfo> options;
  for (const CLI::Option* option : app.get_options()) {
    OptionInfo info;
    for (const std::string& name : option->get_lnames()) info.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) info.names.push_back("-" + name);
    if (info.names.empty()) continue;  // positional
    info.description = option->get_description();
    info.takes_value = option->get_items_expected_max() > 0;
    options.push_back(std::move(info));
  }
  return options;
}

std::string WordsOf(const CLI::App& app) {
  std::vector<std::string> words;
  for (const OptionInfo& option : OptionsOf(app)) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return absl::StrJoin(words, " ");
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string CommandWords(const CLI::App& app) {
  return absl::StrJoin(CommandsOf(app), " ", [](std::string* out, const CLI::App* command) {
    absl::StrAppend(out, command->get_name());
  });
}

std::string Bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : CommandsOf(app)) {
    absl::StrAppend(&cases, "    ", command->get_name(), ") words=\"", WordsOf(*command),
                    "\" ;;\n");
  }
  return absl::StrCat(
      "# bash completion for tunectl\n"
      "_tunectl() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= word words\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \" ",
      CommandWords(app),
      " \" in *\" $word \"*) command=$word; break ;; esac\n"
      "  done\n"
      "  case $prev in\n"
      "    --match) COMPREPLY=($(compgen -W 'exact compatible arch' -- \"$cur\")); return ;;\n"
      "    --format) COMPREPLY=($(compgen -W 'so obj cubin ptx bundle' -- \"$cur\")); return ;;\n"
      "    -o|--output|--store) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n"
      "  esac\n"
      "  case $command in\n"
      "    '') words=\"",
      CommandWords(app), " ", WordsOf(app), "\" ;;\n", cases,
      "  esac\n"
      "  case $command:$cur in\n"
      "    completion:[!-]*|completion:) words=\"bash zsh fish\" ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  case $command in\n"
      "    submit|tune|lookup) COMPREPLY+=($(compgen -f -X '!*.y*ml' -- \"$cur\") "
      "$(compgen -d -- \"$cur\")) ;;\n"
      "  esac\n"
      "}\n"
      "complete -o filenames -F _tunectl tunectl\n");
}

std::string ZshQuote(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshOptions(const CLI::App& app) {
  std::string lines;
  for (const OptionInfo& option : OptionsOf(app)) {
    for (const std::string& name : option.names) {
      absl::StrAppend(&lines, "      '", name, "[", ZshQuote(option.description), "]",
                      option.takes_value ? ":value:_files" : "", "' \\\n");
    }
  }
  return lines;
}

std::string Zsh(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* command : CommandsOf(app)) {
    absl::StrAppend(&commands, "    '", command->get_name(), ":",
                    ZshQuote(command->get_description()), "'\n");
    absl::StrAppend(&cases, "    ", command->get_name(), ") _arguments \\\n", ZshOptions(*command),
                    "      '*:argument:_files' ;;\n");
  }
  return absl::StrCat("#compdef tunectl\n_tunectl() {\n  local -a commands\n  commands=(\n",
                      commands, "  )\n  _arguments -C \\\n", ZshOptions(app),
                      "      '1:command:->command' '*::argument:->argument'\n"
                      "  case $state in\n"
                      "    command) _describe command commands; return ;;\n"
                      "  esac\n"
                      "  case $words[1] in\n",
                      cases, "  esac\n}\n_tunectl \"$@\"\n");
}

std::string FishQuote(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}});
}

std::string FishOptions(const CLI::App& app, absl::string_view condition) {
  std::string lines;
  for (const OptionInfo& option : OptionsOf(app)) {
    absl::StrAppend(&lines, "complete -c tunectl -n '", condition, "'");
    for (const std::string& name : option.names) {
      absl::StrAppend(&lines, name[1] == '-' ? " -l " : " -s ",
                      name.substr(name[1] == '-' ? 2 : 1));
    }
    absl::StrAppend(&lines, option.takes_value ? " -r" : "", " -d '", FishQuote(option.description),
                    "'\n");
  }
  return lines;
}

std::string Fish(const CLI::App& app) {
  std::string text = "# fish completion for tunectl\n";
  absl::StrAppend(&text, FishOptions(app, "true"));
  for (const CLI::App* command : CommandsOf(app)) {
    absl::StrAppend(
        &text, "complete -c tunectl -n __fish_use_subcommand -f -a ", command->get_name(), " -d '",
        FishQuote(command->get_description()), "'\n",
        FishOptions(*command, absl::StrCat("__fish_seen_subcommand_from ", command->get_name())));
  }
  absl::StrAppend(&text, "complete -c tunectl -n '__fish_seen_subcommand_from completion' -f -a ",
                  "'bash zsh fish'\n");
  return text;
}

}  // namespace

void AddCompletionCommand(Context* context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* const completion =
      AddCommand(context, "completion", "Print a completion script for a shell", "",
                 {"tunectl completion bash > /etc/bash_completion.d/tunectl",
                  "tunectl completion zsh > ~/.zfunc/_tunectl",
                  "tunectl completion fish > ~/.config/fish/completions/tunectl.fish"});
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([context, shell] {
    context->run = [context, shell] {
      const CLI::App& app = *context->app;
      const std::string script = *shell == "bash"  ? Bash(app)
                                 : *shell == "zsh" ? Zsh(app)
                                                   : Fish(app);
      std::printf("%s", script.c_str());
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace kiln::tunectl
