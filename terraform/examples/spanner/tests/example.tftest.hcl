mock_provider "google" {}

override_data {
  target = module.pushsink.data.google_project.this
  values = { number = "123456789012" }
}

variables {
  project_id = "my-project"
  image      = "europe-west1-docker.pkg.dev/my-project/images/pushsink:v1.2.3"
}

run "one_apply" {
  command = apply

  assert {
    condition     = output.service_url == "https://pushsink-123456789012.europe-west1.run.app"
    error_message = "Another URL: ${output.service_url}"
  }
  # What the routes file says.
  assert {
    condition     = keys(yamldecode(file("routes.yaml")).routes) == keys(module.pushsink.push_endpoints)
    error_message = "The routes are not those of the subscriptions."
  }
  assert {
    condition     = module.pushsink.metric_writer_grant == null
    error_message = "A role that nobody needs."
  }
}
