// SPDX-License-Identifier: Apache-2.0
#include "brainscript/edit_script.h"

#include "brainscript/deep_stack.h"
#include "brainscript/edit_commands.h"

namespace tutti::brainscript {

struct EditScript::Impl {
  explicit Impl(const config::Record& given) : command(given) {
    const auto variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto v = command.find(name);
      return v ? std::optional(v->text) : std::nullopt;
    };
    file = ndl::text_of_file(command.value("editPath"), "editing script");
    script = mel::parse(file, variable);
    for (const auto& s : script.statements)
      if (s.kind == mel::Statement::Kind::command) mel::find_command(s);
    if (const auto paths = command.find("ndlMacros"))
      for (const auto& path : ndl::script_files(*paths)) load_macros(path, variable);
  }

  // Macros outside of sections and in any of them.
  void load_macros(const config::Value& path, const ndl::Variables& variable) {
    struct File {
      SourceText text;
      ndl::Script script;
    };
    auto read = std::make_shared<File>();
    read->text = ndl::text_of_file(path, "file of macros");
    read->script = ndl::parse(read->text, variable);
    macros.emplace_back(read, &read->script);
    for (const auto& [name, section] : read->script.sections) macros.emplace_back(read, &section);
  }

  void run(mel::Editor& editor) const {
    for (const auto* all : {&macros, &script.macros})
      for (const auto& m : *all) editor.models.add_macros(m);
    for (const auto& s : script.statements) {
      switch (s.kind) {
        case mel::Statement::Kind::command:
          mel::find_command(s).run(editor, s);
          break;
        case mel::Statement::Kind::definitions:
          editor.models.default_model(s.where).network.add(s.script);
          break;
        case mel::Statement::Kind::network:
          if (editor.models.add(s.target, {}))
            editor.notice(s.where, "the model '" + s.target + "' replaces another one of that name");
          editor.models.model(s.target, s.where).network.add(s.script);
          editor.models.add_macros(only_macros(s.script));
          break;
      }
    }
  }

  // Macros of a network are known in the others too; its statements are not.
  static std::shared_ptr<const ndl::Script> only_macros(const std::shared_ptr<const ndl::Script>& network) {
    struct Macros {
      std::shared_ptr<const ndl::Script> owner;
      ndl::Script script;
    };
    auto made = std::make_shared<Macros>();
    made->owner = network;
    made->script.macros = network->macros;
    return {made, &made->script};
  }

  config::Record command;
  SourceText file;
  mel::Script script;
  std::vector<std::shared_ptr<const ndl::Script>> macros;
};

EditScript::EditScript(const config::Record& command) {
  on_deep_stack([&] { impl_ = std::make_unique<Impl>(command); });
}
EditScript::~EditScript() = default;
EditScript::EditScript(EditScript&&) noexcept = default;

std::vector<std::string> EditScript::saved_models() const {
  std::vector<std::string> paths;
  for (const auto& s : impl_->script.statements)
    if (s.kind == mel::Statement::Kind::command && ndl::lower(s.command).starts_with("save"))
      paths.push_back(mel::positional(s).back().text);
  return paths;
}

void EditScript::run(const EditFiles& files, const BuildContext& context) const {
  // Files belong to the calling thread, which alone may communicate with other ranks.
  EditFiles on_caller;
  on_caller.load = [&](const std::string& path) {
    graph::Graph graph;
    on_starting_thread([&] { graph = files.load(path); });
    return graph;
  };
  on_caller.save = [&](const std::string& path, graph::Graph graph) {
    on_starting_thread([&] { files.save(path, std::move(graph)); });
  };
  on_caller.dump = [&](const std::string& path, graph::Graph graph, const std::vector<std::string>& nodes,
                       bool values) { on_starting_thread([&] { files.dump(path, std::move(graph), nodes, values); }); };
  on_deep_stack([&] {
    mel::Editor editor{on_caller, context, mel::Models(context)};
    impl_->run(editor);
  });
}

}  // namespace tutti::brainscript
